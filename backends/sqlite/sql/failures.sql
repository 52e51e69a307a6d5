-- Reads the failed and reaped attempts of one job, first to last.
-- params: job_id
-- rows: attempt, worker_id, at, cause, error
SELECT attempt, worker_id, at, cause, error
FROM {job_failure}
WHERE job_id = +:job_id
ORDER BY attempt
