-- Claims due jobs of one queue and one priority, in the order of the index, past rows that others hold.
-- params: @P1 INT limit; @P2 NVARCHAR(128) queue; @P3 INT priority; @P4 NVARCHAR(128) worker; @P5 BIGINT lease; @P6 NVARCHAR(MAX) accepts
-- rows: the claimed job, in no promised order: sort, and read to the end before believing any of them
-- rules: C7, C8, C9, C10, C12, C19
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
WITH due AS (
  SELECT TOP (@P1) job.job_id, job.queue, job.kind, job.payload, job.payload_version, job.state, job.priority,
    job.run_at, job.attempts, job.max_attempts, job.worker_id, job.lease_until, job.enqueued_at, job.claimed_at,
    job.last_error{job_columns}
  FROM {job} AS job WITH ({hints}, INDEX({name}_ready))
  WHERE job.state = N'ready'
    AND job.queue = @P2
    AND job.priority = @P3
    AND job.run_at <= @now
    AND job.attempts < job.max_attempts
    AND NOT EXISTS (SELECT 1 FROM {job_queue} AS paused WHERE paused.queue = @P2)
    AND (
      @P6 IS NULL
      OR EXISTS (
        SELECT 1
        FROM OPENJSON(@P6) WITH (kind NVARCHAR(128) '$[0]', lowest INT '$[1]', highest INT '$[2]') AS accepted
        WHERE accepted.kind COLLATE Latin1_General_100_BIN2 = job.kind
          AND job.payload_version BETWEEN accepted.lowest AND accepted.highest
      )
    )
  ORDER BY job.run_at, job.job_id
)
UPDATE due
SET state = N'running',
  attempts = due.attempts + 1,
  worker_id = @P4,
  lease_until = DATEADD(MICROSECOND, @P5 % 60000000, DATEADD(MINUTE, @P5 / 60000000, @now)),
  claimed_at = @now
OUTPUT inserted.job_id, inserted.queue, inserted.kind, inserted.payload, inserted.payload_version, inserted.priority,
  DATEDIFF_BIG(MICROSECOND, '19700101', inserted.run_at) AS run_at,
  inserted.attempts, inserted.max_attempts, inserted.worker_id,
  DATEDIFF_BIG(MICROSECOND, '19700101', inserted.lease_until) AS lease_until,
  DATEDIFF_BIG(MICROSECOND, '19700101', inserted.enqueued_at) AS enqueued_at,
  DATEDIFF_BIG(MICROSECOND, '19700101', inserted.claimed_at) AS claimed_at,
  inserted.last_error{inserted_columns}
