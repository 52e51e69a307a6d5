-- Finds the priorities of a queue that have a due job, from high to low, without locking anything.
-- params: @P1 NVARCHAR(128) queue; @P2 NVARCHAR(MAX) accepts (JSON array of [kind, lowest, highest version]; NULL for all)
-- rows: priority
-- rules: C7, C11, C12. Two index seeks per distinct priority: future rows of any priority are not read.
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
WITH step AS (
  SELECT MAX(job.priority) AS priority
  FROM {job} AS job WITH (READPAST, READCOMMITTEDLOCK)
  WHERE job.state = N'ready'
    AND job.queue = @P1
  UNION ALL
  SELECT below.priority
  FROM (
    SELECT job.priority, ROW_NUMBER() OVER (ORDER BY job.priority DESC) AS place
    FROM {job} AS job WITH (READPAST, READCOMMITTEDLOCK)
    INNER JOIN step ON job.priority < step.priority
    WHERE job.state = N'ready'
      AND job.queue = @P1
  ) AS below
  WHERE below.place = 1
)
SELECT step.priority
FROM step
WHERE NOT EXISTS (SELECT 1 FROM {job_queue} AS paused WHERE paused.queue = @P1)
  AND EXISTS (
    SELECT 1
    FROM {job} AS job WITH (READPAST, READCOMMITTEDLOCK)
    WHERE job.state = N'ready'
      AND job.queue = @P1
      AND job.priority = step.priority
      AND job.run_at <= @now
      AND job.attempts < job.max_attempts
      AND (
        @P2 IS NULL
        OR EXISTS (
          SELECT 1
          FROM OPENJSON(@P2) WITH (kind NVARCHAR(128) '$[0]', lowest INT '$[1]', highest INT '$[2]') AS accepted
          WHERE accepted.kind COLLATE Latin1_General_100_BIN2 = job.kind
            AND job.payload_version BETWEEN accepted.lowest AND accepted.highest
        )
      )
  )
ORDER BY step.priority DESC
OPTION (MAXRECURSION 0)
