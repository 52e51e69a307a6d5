-- Claims due jobs of one queue, where index scans skip over priorities by themselves (since 18).
-- params: $1 worker, $2 lease in us, $3 queue, $4 kinds or NULL, $5 $6 payload versions from and to
-- rows: the claimed jobs, in any order; rules C7 C8 C10 C12 C24
-- One array: a LIMIT in an IN list may run again for each row, and take more rows than asked.
UPDATE {job} AS j
SET state = 'running',
  attempts = j.attempts + 1,
  worker_id = $1,
  (claimed_at, lease_until) = (
    SELECT i.now, i.now + $2::BIGINT * INTERVAL '1 microsecond'
    FROM (SELECT clock_timestamp() AS now OFFSET 0) AS i
  )
WHERE j.job_id = ANY (ARRAY(
  SELECT c.job_id
  FROM {job} AS c
  WHERE c.queue = $3
    AND c.state = 'ready'
    AND c.run_at <= statement_timestamp()
    AND c.attempts < c.max_attempts
    AND ($4::TEXT[] IS NULL OR EXISTS (
      SELECT
      FROM unnest($4::TEXT[], $5::INTEGER[], $6::INTEGER[]) AS a (kind, lowest, highest)
      WHERE a.kind = c.kind AND c.payload_version BETWEEN a.lowest AND a.highest
    ))
    AND NOT EXISTS (SELECT FROM {job_queue} AS q WHERE q.queue = $3 AND q.paused_at IS NOT NULL)
  ORDER BY c.priority DESC, c.run_at, c.job_id
  LIMIT {limit}
  FOR NO KEY UPDATE OF c SKIP LOCKED
))
RETURNING j.job_id, j.attempts, j.worker_id, j.queue, j.kind, j.payload, j.payload_version, j.priority, j.run_at,
  j.max_attempts, j.enqueued_at, j.claimed_at, j.lease_until, j.last_error, {column_texts}
