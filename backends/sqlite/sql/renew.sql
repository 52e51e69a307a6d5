-- Moves the deadline of one claim, if it holds.
-- params: job_id, attempt, worker, now, lease
-- rows: none; one changed if the claim holds
-- rules: C13, C14, C15
UPDATE {job}
SET lease_until = :now + :lease
WHERE job_id = :job_id
  AND state = 'running'
  AND attempts = :attempt
  AND worker_id = :worker
  AND lease_until > :now
