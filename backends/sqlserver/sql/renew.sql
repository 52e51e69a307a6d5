-- Moves the deadlines of claims that hold. Their rows are locked already.
-- params: @P1 NVARCHAR(MAX) JSON array of [job_id, attempt, worker]; @P2 BIGINT lease
-- rows: job_id of each claim that holds
-- rules: C13, C14, C15
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE job
SET lease_until = DATEADD(MICROSECOND, @P2 % 60000000, DATEADD(MINUTE, @P2 / 60000000, @now))
OUTPUT inserted.job_id
FROM OPENJSON(@P1) WITH (
  job_id BIGINT '$[0]',
  attempt INT '$[1]',
  worker NVARCHAR(128) '$[2]'
) AS given
INNER LOOP JOIN {job} AS job
  ON job.job_id = given.job_id
WHERE job.state = N'running'
  AND job.attempts = given.attempt
  AND job.worker_id = given.worker COLLATE Latin1_General_100_BIN2
  AND job.lease_until > @now
