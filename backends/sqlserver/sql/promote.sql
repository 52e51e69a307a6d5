-- Raises the oldest free jobs of one priority that have been due for long to another priority.
-- params: @P1 INT limit; @P2 NVARCHAR(128) queue; @P3 INT priority; @P4 BIGINT wait; @P5 INT to
-- rows: job_id
-- rules: C24, C28. Locks in the order of the index, as claim does, and what it locks it changes.
DECLARE @due DATETIME2(6) =
  DATEADD(MICROSECOND, -(@P4 % 60000000), DATEADD(MINUTE, -(@P4 / 60000000), SYSUTCDATETIME()));
WITH waiting AS (
  SELECT TOP (@P1) job.job_id, job.priority
  FROM {job} AS job WITH ({hints}, INDEX({name}_ready))
  WHERE job.state = N'ready'
    AND job.queue = @P2
    AND job.priority = @P3
    AND job.run_at <= @due
    AND job.attempts < job.max_attempts
  ORDER BY job.run_at, job.job_id
)
UPDATE waiting
SET priority = @P5
OUTPUT inserted.job_id
