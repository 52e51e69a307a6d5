-- As claim_select, of the highest priority with ready jobs, which it finds by itself: one statement
-- where there was work a moment ago. Nothing when the queue is paused, or no job of it is due.
-- params: queue, three times; limit
-- rules: C7, C9, C10 (a subquery locks nothing), C12 (one more read of the index), C24
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
    AND j.priority = (
        SELECT h.priority
        FROM {job} AS h FORCE INDEX ({name}_ready)
        WHERE h.state = 'ready'
            AND h.queue = ?
            AND (SELECT COUNT(*) FROM {job_queue} AS q WHERE q.queue = ?) = 0
        ORDER BY h.priority DESC, h.run_at, h.job_id
        LIMIT 1
    )
    AND j.run_at <= UTC_TIMESTAMP(6)
    AND j.attempts < j.max_attempts
ORDER BY j.run_at, j.job_id
LIMIT ?
FOR UPDATE SKIP LOCKED
