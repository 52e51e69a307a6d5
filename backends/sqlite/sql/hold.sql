-- Tells whether a claim holds, and changes nothing.
-- params: job_id, attempt, worker, now
-- rows: one (0 or 1)
-- rules: C13, C14
SELECT EXISTS (
  SELECT 1
  FROM {job}
  WHERE job_id = :job_id
    AND state = 'running'
    AND attempts = :attempt
    AND worker_id = :worker
    AND lease_until > :now
)
