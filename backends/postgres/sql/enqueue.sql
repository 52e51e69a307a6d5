-- Stores a batch of jobs, under ids that dedup_lock.sql gave or new ones in the order given.
-- params: $1 job_ids or NULL, $2 queues, $3 kinds, $4 payloads, $5 versions, $6 priorities,
--   $7 delays in us, $8 max attempts, $9.. one array per business column
-- rows: (job_id) in the order given; rules C1 C4 C6 C24
WITH numbered AS MATERIALIZED (
  -- No business column begins with an underscore.
  SELECT COALESCE(t._given, nextval((SELECT pg_get_serial_sequence('{job}', 'job_id')::REGCLASS))) AS job_id, t.*
  FROM unnest($1::BIGINT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::INTEGER[], $6::INTEGER[], $7::BIGINT[],
    $8::INTEGER[]{column_arrays}) WITH ORDINALITY
    AS t (_given, queue, kind, payload, payload_version, priority, _delay, max_attempts{columns}, _place)
), instant AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), stored AS (
  INSERT INTO {job} (job_id, queue, kind, payload, payload_version, priority, run_at, max_attempts, enqueued_at{columns})
  SELECT n.job_id, n.queue, n.kind, n.payload::JSON, n.payload_version, n.priority,
    i.now + n._delay * INTERVAL '1 microsecond', n.max_attempts, i.now{numbered_columns}
  FROM numbered AS n
  CROSS JOIN instant AS i
)
SELECT n.job_id
FROM numbered AS n
ORDER BY n._place
