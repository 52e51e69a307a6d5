-- Finishes one job as succeeded, if the claim holds.
-- params: job_id, attempt, worker, now
-- rows: none; one changed if the claim holds
-- rules: C13, C14, C15
UPDATE {job}
SET state = 'succeeded',
  finished_at = :now,
  worker_id = NULL,
  lease_until = NULL,
  last_error = NULL
WHERE job_id = :job_id
  AND state = 'running'
  AND attempts = :attempt
  AND worker_id = :worker
  AND lease_until > :now
