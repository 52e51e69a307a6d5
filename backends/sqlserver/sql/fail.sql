-- Gives claims up that hold: ready again after the delay, dead when told so or when no attempt is left, or released.
-- params: @P1 NVARCHAR(MAX) JSON array of [job_id, attempt, worker, action ('retry', 'dead', 'release'), delay, error]
-- rows: job_id, state, run_at of each claim that held
-- rules: C13, C14, C15, C19. A release raises max_attempts, because attempts never shrinks.
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE job
SET state = next.state,
  run_at = CASE
    WHEN next.state = N'dead' THEN job.run_at
    ELSE DATEADD(MICROSECOND, given.delay % 60000000, DATEADD(MINUTE, given.delay / 60000000, @now))
  END,
  max_attempts = job.max_attempts + CASE WHEN given.action = N'release' THEN 1 ELSE 0 END,
  finished_at = CASE WHEN next.state = N'dead' THEN @now END,
  worker_id = NULL,
  lease_until = NULL,
  last_error = CASE WHEN given.action = N'release' THEN COALESCE(given.error, job.last_error) ELSE given.error END
OUTPUT inserted.job_id, inserted.state, DATEDIFF_BIG(MICROSECOND, '19700101', inserted.run_at) AS run_at
FROM OPENJSON(@P1) WITH (
  job_id BIGINT '$[0]',
  attempt INT '$[1]',
  worker NVARCHAR(128) '$[2]',
  action NVARCHAR(16) '$[3]',
  delay BIGINT '$[4]',
  error NVARCHAR(MAX) '$[5]'
) AS given
INNER LOOP JOIN {job} AS job
  ON job.job_id = given.job_id
CROSS APPLY (
  SELECT CASE
    WHEN given.action = N'dead' THEN N'dead'
    WHEN given.action = N'retry' AND job.attempts >= job.max_attempts THEN N'dead'
    ELSE N'ready'
  END AS state
) AS next
WHERE job.state = N'running'
  AND job.attempts = given.attempt
  AND job.worker_id = given.worker COLLATE Latin1_General_100_BIN2
  AND job.lease_until > @now
