-- Judges a claim and changes nothing. Its row is locked already.
-- params: @P1 NVARCHAR(MAX) JSON array of [job_id, attempt, worker]
-- rows: job_id of each claim that holds
-- rules: C13, C14, C15, C17
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT job.job_id
FROM OPENJSON(@P1) WITH (
  job_id BIGINT '$[0]',
  attempt INT '$[1]',
  worker NVARCHAR(128) '$[2]'
) AS given
INNER LOOP JOIN {job} AS job WITH (FORCESEEK)
  ON job.job_id = given.job_id
WHERE job.state = N'running'
  AND job.attempts = given.attempt
  AND job.worker_id = given.worker COLLATE Latin1_General_100_BIN2
  AND job.lease_until > @now
