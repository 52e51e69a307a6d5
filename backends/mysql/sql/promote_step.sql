-- Finds the next lower priority with ready jobs. Locks nothing.
-- params: queue; priority (look below it)
-- rows: priority; none when there is no lower one
-- rules: C28 (one read of the index per priority, however many jobs it has)
SELECT j.priority
FROM {job} AS j FORCE INDEX ({name}_ready)
WHERE j.state = 'ready'
    AND j.queue = ?
    AND j.priority < ?
ORDER BY j.priority DESC
LIMIT 1
