-- Counts jobs per queue; paused queues without jobs are in it.
-- params: queue or NULL, twice, and twice again
-- rows: queue, due, scheduled, running, overdue, succeeded, dead, age of the oldest due job in
-- microseconds, paused
SELECT
    s.queue,
    CAST(SUM(s.due) AS SIGNED),
    CAST(SUM(s.scheduled) AS SIGNED),
    CAST(SUM(s.running) AS SIGNED),
    CAST(SUM(s.overdue) AS SIGNED),
    CAST(SUM(s.succeeded) AS SIGNED),
    CAST(SUM(s.dead) AS SIGNED),
    MAX(s.oldest_us),
    CAST(SUM(s.paused) AS SIGNED)
FROM (
    SELECT
        j.queue,
        SUM(j.state = 'ready' AND j.run_at <= UTC_TIMESTAMP(6)) AS due,
        SUM(j.state = 'ready' AND j.run_at > UTC_TIMESTAMP(6)) AS scheduled,
        SUM(j.state = 'running') AS running,
        SUM(j.state = 'running' AND j.lease_until <= UTC_TIMESTAMP(6)) AS overdue,
        SUM(j.state = 'succeeded') AS succeeded,
        SUM(j.state = 'dead') AS dead,
        MAX(
            CASE
                WHEN j.state = 'ready' AND j.run_at <= UTC_TIMESTAMP(6)
                THEN TIMESTAMPDIFF(MICROSECOND, j.run_at, UTC_TIMESTAMP(6))
            END
        ) AS oldest_us,
        0 AS paused
    FROM {job} AS j
    WHERE ? IS NULL OR j.queue = ?
    GROUP BY j.queue
    UNION ALL
    SELECT q.queue, 0, 0, 0, 0, 0, 0, NULL, 1
    FROM {job_queue} AS q
    WHERE ? IS NULL OR q.queue = ?
) AS s
GROUP BY s.queue
ORDER BY s.queue
