-- Tells which locked dedup keys are free: the holder's row is gone, or finished and unfinished was
-- the scope. A statement of its own after dedup_lock.sql, to see what committed while that waited.
-- params: $1 queues, $2 keys
-- rows: (place) of the free ones; rules C5
SELECT t.place
FROM unnest($1::TEXT[], $2::TEXT[]) WITH ORDINALITY AS t (queue, dedup_key, place)
JOIN {job_dedup} AS d ON d.queue = t.queue AND d.dedup_key = t.dedup_key
LEFT JOIN {job} AS j ON j.job_id = d.job_id
WHERE j.job_id IS NULL OR (d.scope = 'unfinished' AND j.state IN ('succeeded', 'dead'))
ORDER BY t.place
