-- Makes a locked dead job ready again, with a budget of its attempts so far and some more.
-- params: $1 job_id, $2 extra attempts
-- rows: (max_attempts); rules C19 C20
UPDATE {job} AS j
SET state = 'ready',
  run_at = clock_timestamp(),
  max_attempts = j.attempts + $2::INTEGER,
  finished_at = NULL,
  last_error = NULL
WHERE j.job_id = $1 AND j.state = 'dead'
RETURNING j.max_attempts
