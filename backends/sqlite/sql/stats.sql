-- Counts the jobs of each queue, by name; a paused queue without jobs is counted too.
-- params: queue (NULL for all)
-- rows: queue, due, scheduled, running, overdue, succeeded, dead, oldest_due_us (NULL when none is), paused
WITH clock (now) AS (
  SELECT CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000
),
counted AS (
  SELECT queue,
    SUM(state = 'ready' AND run_at <= now) AS due,
    SUM(state = 'ready' AND run_at > now) AS scheduled,
    SUM(state = 'running') AS running,
    SUM(state = 'running' AND lease_until <= now) AS overdue,
    SUM(state = 'succeeded') AS succeeded,
    SUM(state = 'dead') AS dead,
    MAX(CASE WHEN state = 'ready' AND run_at <= now THEN now - run_at END) AS oldest_due_us
  FROM {job}, clock
  WHERE :queue IS NULL OR queue = :queue
  GROUP BY queue
)
SELECT queue, due, scheduled, running, overdue, succeeded, dead, oldest_due_us,
  EXISTS (SELECT 1 FROM {job_queue} AS paused WHERE paused.queue = counted.queue) AS paused
FROM counted
UNION ALL
SELECT queue, 0, 0, 0, 0, 0, 0, NULL, 1
FROM {job_queue}
WHERE (:queue IS NULL OR queue = :queue)
  AND queue NOT IN (SELECT queue FROM counted)
ORDER BY queue
