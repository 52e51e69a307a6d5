-- Buries ready jobs that have no attempt left, which no claim takes.
-- params: none
-- rows: (job_id, queue, attempts); rules C21
WITH exhausted AS MATERIALIZED (
  SELECT j.job_id
  FROM {job} AS j
  WHERE j.state = 'ready' AND j.attempts >= j.max_attempts
  ORDER BY j.job_id
  LIMIT {limit}
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {job} AS j
SET state = 'dead',
  finished_at = clock_timestamp(),
  last_error = COALESCE(j.last_error, 'no attempts left')
FROM exhausted AS e
WHERE j.job_id = e.job_id
RETURNING j.job_id, j.queue, j.attempts
