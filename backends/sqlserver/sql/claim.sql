-- Claims due jobs of one queue and one priority, in the order of the index, past rows that others hold. Locks them first;
-- the lease begins once that is done.
-- params: @P1 INT limit; @P2 NVARCHAR(128) queue; @P3 INT priority; @P4 NVARCHAR(128) worker; @P5 BIGINT lease; @P6 NVARCHAR(MAX) accepts
-- rows: the claimed job, in no promised order: sort, and read to the end before believing any; rules: C7, C8, C9, C10, C12, C19, C24
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
-- enqueued_at is not in the index: it is read from the row itself, which is locked for it or passed.
DECLARE @taken TABLE (job_id BIGINT NOT NULL PRIMARY KEY, enqueued_at DATETIME2(6) NOT NULL);
INSERT INTO @taken (job_id, enqueued_at)
SELECT TOP (@P1) job.job_id, job.enqueued_at
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
ORDER BY job.run_at, job.job_id;
SET @now = SYSUTCDATETIME();
UPDATE job
SET state = N'running',
  attempts = job.attempts + 1,
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
FROM @taken AS taken
INNER LOOP JOIN {job} AS job
  ON job.job_id = taken.job_id
WHERE job.state = N'ready'
  AND job.attempts < job.max_attempts
