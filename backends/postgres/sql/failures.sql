-- Reads the failed and reaped attempts of a job, first to last.
-- params: $1 job_id
-- rows: (job_id, attempt, worker_id, at, cause, error)
SELECT f.job_id, f.attempt, f.worker_id, f.at, f.cause, f.error
FROM {job_failure} AS f
WHERE f.job_id = $1
ORDER BY f.attempt
