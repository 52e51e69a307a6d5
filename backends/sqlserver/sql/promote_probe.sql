-- Finds how many of the oldest waiting jobs each lower priority has, without locking anything.
-- params: @P1 INT limit; @P2 NVARCHAR(128) queue; @P3 INT to; @P4 BIGINT wait
-- rows: priority, jobs
-- rules: C24, C28. The same steps as claim_probe, to at most the limit's jobs of each priority.
DECLARE @due DATETIME2(6) =
  DATEADD(MICROSECOND, -(@P4 % 60000000), DATEADD(MINUTE, -(@P4 / 60000000), SYSUTCDATETIME()));
WITH step AS (
  SELECT MAX(job.priority) AS priority
  FROM {job} AS job WITH (READPAST, READCOMMITTEDLOCK)
  WHERE job.state = N'ready'
    AND job.queue = @P2
    AND job.priority < @P3
  UNION ALL
  SELECT below.priority
  FROM (
    SELECT job.priority, ROW_NUMBER() OVER (ORDER BY job.priority DESC) AS place
    FROM {job} AS job WITH (READPAST, READCOMMITTEDLOCK)
    INNER JOIN step ON job.priority < step.priority
    WHERE job.state = N'ready'
      AND job.queue = @P2
  ) AS below
  WHERE below.place = 1
)
SELECT oldest.priority, COUNT(*) AS jobs
FROM (
  SELECT TOP (@P1) waiting.priority
  FROM step
  CROSS APPLY (
    SELECT TOP (@P1) job.priority, job.run_at, job.job_id
    FROM {job} AS job WITH (READPAST, READCOMMITTEDLOCK)
    WHERE job.state = N'ready'
      AND job.queue = @P2
      AND job.priority = step.priority
      AND job.run_at <= @due
      AND job.attempts < job.max_attempts
    ORDER BY job.run_at, job.job_id
  ) AS waiting
  ORDER BY waiting.run_at, waiting.job_id
) AS oldest
GROUP BY oldest.priority
OPTION (MAXRECURSION 0)
