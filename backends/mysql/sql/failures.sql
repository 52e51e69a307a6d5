-- Reads the failed and reaped attempts of a job, first to last.
-- params: job id
SELECT f.attempt, f.worker_id, f.at, f.cause, f.error
FROM {job_failure} AS f
WHERE f.job_id = ?
ORDER BY f.attempt
