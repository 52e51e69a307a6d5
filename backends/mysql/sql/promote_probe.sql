-- Finds the jobs of one priority that have been due for long, the oldest first. Locks nothing.
-- params: queue; priority; how long they have been due in microseconds; limit
-- rows: job_id, run_at
-- rules: C24, C28
SELECT
    j.job_id,
    j.run_at
FROM {job} AS j FORCE INDEX ({name}_ready)
WHERE j.state = 'ready'
    AND j.queue = ?
    AND j.priority = ?
    AND j.run_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
    AND j.attempts < j.max_attempts
ORDER BY j.run_at, j.job_id
LIMIT ?
