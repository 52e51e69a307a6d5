-- Reads the failed and reaped attempts of one job, first to last.
-- params: @P1 BIGINT job_id
-- rows: attempt, worker_id, at, cause, error
SELECT attempt, worker_id, DATEDIFF_BIG(MICROSECOND, '19700101', at) AS at, cause, error
FROM {job_failure}
WHERE job_id = @P1
ORDER BY attempt
