-- Locks overdue running jobs, oldest deadline first, skipping those that somebody holds. The lock
-- checks again.
-- params: none
-- rows: (job_id, attempts); rules C18
SELECT j.job_id, j.attempts
FROM {job} AS j
WHERE j.state = 'running' AND j.lease_until <= (SELECT clock_timestamp())
ORDER BY j.lease_until
LIMIT {limit}
FOR NO KEY UPDATE SKIP LOCKED
