-- Counts the jobs of each queue, by name; a paused queue without jobs is counted too.
-- params: @P1 NVARCHAR(128) queue (NULL for all)
-- rows: queue, due, scheduled, running, overdue, succeeded, dead, oldest_due (us; NULL when none is), paused
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
WITH counted AS (
  SELECT job.queue,
    COUNT_BIG(CASE WHEN job.state = N'ready' AND job.run_at <= @now THEN 1 END) AS due,
    COUNT_BIG(CASE WHEN job.state = N'ready' AND job.run_at > @now THEN 1 END) AS scheduled,
    COUNT_BIG(CASE WHEN job.state = N'running' THEN 1 END) AS running,
    COUNT_BIG(CASE WHEN job.state = N'running' AND job.lease_until <= @now THEN 1 END) AS overdue,
    COUNT_BIG(CASE WHEN job.state = N'succeeded' THEN 1 END) AS succeeded,
    COUNT_BIG(CASE WHEN job.state = N'dead' THEN 1 END) AS dead,
    MIN(CASE WHEN job.state = N'ready' AND job.run_at <= @now THEN job.run_at END) AS oldest
  FROM {job} AS job
  WHERE @P1 IS NULL OR job.queue = @P1
  GROUP BY job.queue
)
SELECT COALESCE(counted.queue, paused.queue) AS queue,
  COALESCE(counted.due, 0) AS due,
  COALESCE(counted.scheduled, 0) AS scheduled,
  COALESCE(counted.running, 0) AS running,
  COALESCE(counted.overdue, 0) AS overdue,
  COALESCE(counted.succeeded, 0) AS succeeded,
  COALESCE(counted.dead, 0) AS dead,
  DATEDIFF_BIG(MICROSECOND, counted.oldest, @now) AS oldest_due,
  CASE WHEN paused.queue IS NULL THEN 0 ELSE 1 END AS paused
FROM counted
FULL JOIN (SELECT queue FROM {job_queue} WHERE @P1 IS NULL OR queue = @P1) AS paused
  ON paused.queue = counted.queue
ORDER BY 1
OPTION (RECOMPILE)
