-- Tells without the writer lock whether a claim would find anything.
-- params: queue, accepts (JSON array of [kind, lowest version, highest version], or NULL for all)
-- rows: one (0 or 1)
-- rules: C7, C11, C12. The same steps and conditions as claim_select.
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
SELECT EXISTS (
  SELECT 1
  FROM step
  CROSS JOIN {job} AS j
  WHERE likelihood(step.priority IS NOT NULL, 0.0000001)
    AND j.queue = +:queue
    AND j.state = 'ready'
    AND j.priority = step.priority
    AND j.run_at <= CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000
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
)
