-- Gives one claim back, if it holds, without spending the budget: max_attempts grows, because attempts never shrinks.
-- params: job_id, attempt, worker, now, delay, error (NULL keeps the last one)
-- rows: one (state, run_at) if the claim holds
-- rules: C13, C14, C15, C19
UPDATE {job}
SET state = 'ready',
  run_at = :now + :delay,
  max_attempts = max_attempts + 1,
  worker_id = NULL,
  lease_until = NULL,
  last_error = COALESCE(:error, last_error)
WHERE job_id = :job_id
  AND state = 'running'
  AND attempts = :attempt
  AND worker_id = :worker
  AND lease_until > :now
RETURNING state, run_at
