-- Stores one job. Its id is the statement's last insert id.
-- params: queue; kind; payload; payload version; priority; delay in microseconds; max attempts;
-- dedup key; columns
-- rules: C1, C4, C24
INSERT INTO {job} (
    queue, kind, payload, payload_version, state, priority, run_at, attempts, max_attempts,
    enqueued_at, _dedup_key{insert_columns}
)
VALUES (
    ?, ?, ?, ?, 'ready', ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, 0, ?,
    UTC_TIMESTAMP(6), ?{column_params}
)
