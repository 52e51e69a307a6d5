-- Raises the oldest jobs of one queue that have been due for long to a priority above their own.
-- params: queue, to, now, waited, limit
-- rows: none; as many changed as were promoted
-- rules: C28. The same steps as claim_select, to at most the limit's jobs of each priority.
WITH RECURSIVE step (priority) AS (
  SELECT (
    SELECT priority
    FROM {job}
    WHERE queue = +:queue
      AND state = 'ready'
      AND priority < +:to
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
UPDATE {job}
SET priority = :to
WHERE job_id IN (
  SELECT j.job_id
  FROM step
  CROSS JOIN {job} AS j
  WHERE j.job_id IN (
    SELECT job_id
    FROM {job}
    WHERE queue = +:queue
      AND state = 'ready'
      AND priority = step.priority
      AND run_at <= +:now - :waited
      AND attempts < max_attempts
    ORDER BY run_at, job_id
    LIMIT +:limit
  )
  ORDER BY j.run_at, j.job_id
  LIMIT +:limit
)
