-- Reads what decides why a claim is lost.
-- params: job_id
-- rows: none or one (state, attempts, worker_id)
-- rules: C15
SELECT state, attempts, worker_id
FROM {job}
WHERE job_id = :job_id
