-- Stores the claim of one job that claim_select found in the same transaction.
-- params: job_id, worker, now, lease
-- rows: none; one changed
-- rules: C8, C10, C19
UPDATE {job}
SET state = 'running',
  attempts = attempts + 1,
  worker_id = :worker,
  lease_until = :now + :lease,
  claimed_at = :now
WHERE job_id = :job_id
