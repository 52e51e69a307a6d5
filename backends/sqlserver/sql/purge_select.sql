-- Finds old finished jobs behind a cursor, oldest first, each state by its own window, past rows that others hold.
-- params: @P1 INT limit; @P2 BIGINT succeeded_after; @P3 BIGINT dead_after (us; NULL keeps them); @P4 BIGINT finished_at; @P5 BIGINT job_id
-- rows: job_id, finished_at
-- rules: C22. Two ordered index ranges, merged: rows of a state that is kept are not read.
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
DECLARE @succeeded_until DATETIME2(6) = DATEADD(MICROSECOND, -(@P2 % 60000000), DATEADD(MINUTE, -(@P2 / 60000000), @now));
DECLARE @dead_until DATETIME2(6) = DATEADD(MICROSECOND, -(@P3 % 60000000), DATEADD(MINUTE, -(@P3 / 60000000), @now));
DECLARE @from DATETIME2(6) = DATEADD(MICROSECOND, @P4 % 60000000, DATEADD(MINUTE, @P4 / 60000000, CONVERT(DATETIME2(6), '19700101')));
SELECT TOP (@P1) old.job_id, DATEDIFF_BIG(MICROSECOND, '19700101', old.finished_at) AS finished_at
FROM (
  SELECT succeeded.job_id, succeeded.finished_at
  FROM (
    SELECT TOP (@P1) job.job_id, job.finished_at
    FROM {job} AS job WITH (READPAST, READCOMMITTEDLOCK)
    WHERE job.state = N'succeeded'
      AND job.finished_at <= @succeeded_until
      AND job.finished_at >= @from
      AND (job.finished_at > @from OR job.job_id > @P5)
    ORDER BY job.finished_at, job.job_id
  ) AS succeeded
  UNION ALL
  SELECT dead.job_id, dead.finished_at
  FROM (
    SELECT TOP (@P1) job.job_id, job.finished_at
    FROM {job} AS job WITH (READPAST, READCOMMITTEDLOCK)
    WHERE job.state = N'dead'
      AND job.finished_at <= @dead_until
      AND job.finished_at >= @from
      AND (job.finished_at > @from OR job.job_id > @P5)
    ORDER BY job.finished_at, job.job_id
  ) AS dead
) AS old
ORDER BY old.finished_at, old.job_id
