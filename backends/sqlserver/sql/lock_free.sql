-- As lock, but for those of the jobs whose rows nobody else has locked, and without waiting.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids, from low to high
-- rows: job_id, state, attempts, worker_id
-- rules: C14, C15, C16. A table that is the target of an UPDATE takes no FORCESEEK, so only the locking reads have it.
SELECT job.job_id, job.state, job.attempts, job.worker_id
FROM OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
INNER LOOP JOIN {job} AS job WITH ({hints}, FORCESEEK)
  ON job.job_id = given.job_id
