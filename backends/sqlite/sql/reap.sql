-- Moves one overdue job that reap_select found in the same transaction: ready after the delay, or dead at the limit.
-- params: job_id, now, delay, error
-- rows: one (state, run_at)
-- rules: C18, C19
UPDATE {job}
SET state = CASE WHEN attempts >= max_attempts THEN 'dead' ELSE 'ready' END,
  run_at = CASE WHEN attempts >= max_attempts THEN run_at ELSE :now + :delay END,
  finished_at = CASE WHEN attempts >= max_attempts THEN :now END,
  worker_id = NULL,
  lease_until = NULL,
  last_error = :error
WHERE job_id = :job_id
RETURNING state, run_at
