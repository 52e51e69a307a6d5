-- Locks due jobs of one priority in claim order, and reads the clock for the whole claim.
-- params: queue; priority; limit
-- rows: the job as it was, and now; rows held by others are skipped
-- rules: C7, C9, C10 (no sort: a sort would lock every candidate), C12, C24
SELECT
    j.job_id,
    j.attempts,
    j.kind,
    j.payload,
    j.payload_version,
    j.priority,
    j.run_at,
    j.max_attempts,
    j.enqueued_at,
    j.last_error,
    UTC_TIMESTAMP(6){columns}
FROM {job} AS j FORCE INDEX ({name}_ready)
WHERE j.state = 'ready'
    AND j.queue = ?
    AND j.priority = ?
    AND j.run_at <= UTC_TIMESTAMP(6)
    AND j.attempts < j.max_attempts
ORDER BY j.run_at, j.job_id
LIMIT ?
FOR UPDATE SKIP LOCKED
