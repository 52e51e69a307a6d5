-- Moves overdue jobs that reap_select locked, if they still are: ready after the delay, or dead at the limit.
-- params: @P1 NVARCHAR(MAX) JSON array of [job_id, attempt, delay, error]
-- rows: job_id, state, run_at
-- rules: C18, C19
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE job
SET state = CASE WHEN job.attempts >= job.max_attempts THEN N'dead' ELSE N'ready' END,
  run_at = CASE
    WHEN job.attempts >= job.max_attempts THEN job.run_at
    ELSE DATEADD(MICROSECOND, given.delay % 60000000, DATEADD(MINUTE, given.delay / 60000000, @now))
  END,
  finished_at = CASE WHEN job.attempts >= job.max_attempts THEN @now END,
  worker_id = NULL,
  lease_until = NULL,
  last_error = given.error
OUTPUT inserted.job_id, inserted.state, DATEDIFF_BIG(MICROSECOND, '19700101', inserted.run_at) AS run_at
FROM OPENJSON(@P1) WITH (
  job_id BIGINT '$[0]',
  attempt INT '$[1]',
  delay BIGINT '$[2]',
  error NVARCHAR(MAX) '$[3]'
) AS given
INNER LOOP JOIN {job} AS job
  ON job.job_id = given.job_id
WHERE job.state = N'running'
  AND job.attempts = given.attempt
  AND job.lease_until <= @now
