-- Raises jobs of one queue that have been due for long to a priority above their own.
-- params: $1 queue, $2 the priority they get, $3 how long they have been due in us
-- rows: none; as many changed as were promoted; rules C24 C28
-- Held jobs are passed over: the oldest 1,000 are looked at, and the first free ones of them taken.
WITH held AS MATERIALIZED (
  -- By id alone: with another condition a plan may read the whole ready index instead.
  SELECT c.job_id, c.state, c.priority, c.run_at
  FROM {job} AS c
  WHERE c.job_id = ANY (ARRAY(
    WITH RECURSIVE step (priority) AS (
      (SELECT r.priority
      FROM {job} AS r
      WHERE r.queue = $1 AND r.state = 'ready' AND r.priority < $2
      ORDER BY r.priority DESC
      LIMIT 1)
      UNION ALL
      SELECT (
        SELECT r.priority
        FROM {job} AS r
        WHERE r.queue = $1 AND r.state = 'ready' AND r.priority < s.priority
        ORDER BY r.priority DESC
        LIMIT 1
      )
      FROM step AS s
      WHERE s.priority IS NOT NULL
    )
    SELECT d.job_id
    FROM step AS s
    CROSS JOIN LATERAL (
      SELECT r.job_id, r.run_at
      FROM {job} AS r
      WHERE r.queue = $1
        AND r.state = 'ready'
        AND r.priority = s.priority
        AND r.run_at <= statement_timestamp() - $3::BIGINT * INTERVAL '1 microsecond'
        AND r.attempts < r.max_attempts
      ORDER BY r.run_at, r.job_id
      LIMIT 1000
    ) AS d
    ORDER BY d.run_at, d.job_id
    LIMIT 1000
  ))
  ORDER BY c.run_at, c.job_id
  LIMIT {limit}
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {job} AS j
SET priority = $2
WHERE j.job_id = ANY (ARRAY(
  -- Once more, by the row as it was when it was locked: it may have been claimed and retried.
  SELECT h.job_id
  FROM held AS h
  WHERE h.state = 'ready'
    AND h.priority < $2
    AND h.run_at <= statement_timestamp() - $3::BIGINT * INTERVAL '1 microsecond'
))
