-- Locks the oldest free ones of the jobs that promote_probe finds.
-- params: as promote_probe
-- rows: job_id; rows held by others are skipped
-- rules: C24, C28 (no sort: a sort would lock every candidate)
SELECT j.job_id
FROM {job} AS j FORCE INDEX ({name}_ready)
WHERE j.state = 'ready'
    AND j.queue = ?
    AND j.priority = ?
    AND j.run_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
    AND j.attempts < j.max_attempts
ORDER BY j.run_at, j.job_id
LIMIT ?
FOR UPDATE SKIP LOCKED
