-- Records failed or reaped attempts. The primary key ignores an attempt that is recorded already.
-- params: @P1 NVARCHAR(MAX) JSON array of [job_id, attempt, worker, cause, error]
-- rows: none
-- rules: C18
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
INSERT INTO {job_failure} (job_id, attempt, worker_id, at, cause, error)
SELECT given.job_id, given.attempt, given.worker, @now, given.cause, given.error
FROM OPENJSON(@P1) WITH (
  job_id BIGINT '$[0]',
  attempt INT '$[1]',
  worker NVARCHAR(128) '$[2]',
  cause NVARCHAR(16) '$[3]',
  error NVARCHAR(MAX) '$[4]'
) AS given
