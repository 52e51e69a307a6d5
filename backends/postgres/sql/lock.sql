-- Locks rows in the order of their ids, and reads what decides why a claim is lost.
-- params: $1 job_ids
-- rows: (job_id, state, attempts, worker_id); rules C14 C15 C16
SELECT j.job_id, j.state, j.attempts, j.worker_id
FROM {job} AS j
WHERE j.job_id = ANY ($1::BIGINT[])
ORDER BY j.job_id
FOR NO KEY UPDATE
