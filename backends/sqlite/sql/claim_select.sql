-- Finds the next due jobs of one queue, in claim order, by stepping over the distinct priorities.
-- params: queue, now, accepts (JSON array of [kind, lowest version, highest version], or NULL for all), limit
-- rows: job_id, kind, payload, payload_version, priority, run_at, attempts, max_attempts, enqueued_at, last_error, columns
-- rules: C7, C9, C12, C21. One index seek per priority. `likelihood` keeps ANALYZE from costing a Bloom filter of all rows.
WITH RECURSIVE step (priority) AS (
  SELECT (
    SELECT priority
    FROM {job}
    WHERE queue = +:queue
      AND state = 'ready'
      AND NOT EXISTS (SELECT 1 FROM {job_queue} WHERE queue = +:queue)
    ORDER BY priority DESC
    LIMIT 1
  )
  UNION ALL
  SELECT (
    SELECT priority
    FROM {job}
    WHERE queue = +:queue
      AND state = 'ready'
      AND priority < step.priority
    ORDER BY priority DESC
    LIMIT 1
  )
  FROM step
  WHERE step.priority IS NOT NULL
)
SELECT j.job_id, j.kind, j.payload, j.payload_version, j.priority, j.run_at, j.attempts, j.max_attempts,
  j.enqueued_at, j.last_error{columns}
FROM step
CROSS JOIN {job} AS j
WHERE likelihood(step.priority IS NOT NULL, 0.0000001)
  AND j.queue = +:queue
  AND j.state = 'ready'
  AND j.priority = step.priority
  AND j.run_at <= +:now
  AND j.attempts < j.max_attempts
  AND (
    :accepts IS NULL
    OR EXISTS (
      SELECT 1
      FROM json_each(:accepts) AS accepted
      WHERE j.kind = accepted.value ->> 0
        AND j.payload_version BETWEEN accepted.value ->> 1 AND accepted.value ->> 2
    )
  )
LIMIT +:limit
