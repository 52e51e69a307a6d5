-- Finds the next lower priority with ready jobs, and if its earliest job is due. Locks nothing.
-- params: queue; priority (look below it); queue
-- rows: priority, due; none when there is no lower priority, or the queue is paused
-- rules: C7, C9, C12 (two reads of the index per priority, however many future jobs it has)
SELECT
    j.priority,
    j.run_at <= UTC_TIMESTAMP(6)
FROM {job} AS j FORCE INDEX ({name}_ready)
WHERE j.state = 'ready'
    AND j.queue = ?
    AND j.priority < ?
    AND (SELECT COUNT(*) FROM {job_queue} AS q WHERE q.queue = ?) = 0
ORDER BY j.priority DESC, j.run_at, j.job_id
LIMIT 1
