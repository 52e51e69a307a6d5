-- Gives one claim up, if it holds: ready again after the delay, or dead when told so or when no attempt is left.
-- params: job_id, attempt, worker, now, dead (0 or 1), delay, error
-- rows: one (state, run_at) if the claim holds
-- rules: C13, C14, C15, C19
UPDATE {job}
SET state = CASE WHEN :dead OR attempts >= max_attempts THEN 'dead' ELSE 'ready' END,
  run_at = CASE WHEN :dead OR attempts >= max_attempts THEN run_at ELSE :now + :delay END,
  finished_at = CASE WHEN :dead OR attempts >= max_attempts THEN :now END,
  worker_id = NULL,
  lease_until = NULL,
  last_error = :error
WHERE job_id = :job_id
  AND state = 'running'
  AND attempts = :attempt
  AND worker_id = :worker
  AND lease_until > :now
RETURNING state, run_at
