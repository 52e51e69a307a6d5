-- Locks running jobs whose lease is over and ready ones without an attempt left, oldest first.
-- params: limit
-- rows: job id, queue, state, attempts, max_attempts, worker, now; rows held by others are skipped
-- rules: C10, C18 (a locking read judges the row as it is once locked), C21, C24
SELECT
    j.job_id,
    j.queue,
    j.state,
    j.attempts,
    j.max_attempts,
    j.worker_id,
    UTC_TIMESTAMP(6)
FROM {job} AS j FORCE INDEX ({name}_lease)
WHERE j._reap_at <= UTC_TIMESTAMP(6)
ORDER BY j._reap_at, j.job_id
LIMIT ?
FOR UPDATE SKIP LOCKED
