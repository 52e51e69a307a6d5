-- Makes jobs dead that bury_select found, if they are still ready without an attempt left and nobody holds their row.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids; @P2 NVARCHAR(MAX) error (kept unless there is one)
-- rows: job_id
-- rules: C21
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
UPDATE job
SET state = N'dead',
  finished_at = @now,
  last_error = COALESCE(job.last_error, @P2)
OUTPUT inserted.job_id
FROM OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
INNER LOOP JOIN {job} AS job WITH ({hints})
  ON job.job_id = given.job_id
WHERE job.state = N'ready'
  AND job.attempts >= job.max_attempts
