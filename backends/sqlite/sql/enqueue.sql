-- Stores one job; its id is the connection's last inserted rowid.
-- params: queue, kind, payload, payload_version, priority, now, delay, max_attempts, business columns
-- rows: none; one inserted
-- rules: C1, C4, C6, C24
INSERT INTO {job} (
  queue, kind, payload, payload_version, state, priority, run_at, attempts, max_attempts, enqueued_at{columns}
)
VALUES (
  :queue, :kind, :payload, :payload_version, 'ready', :priority, :now + :delay, 0, :max_attempts, :now{column_values}
)
