-- Reads who holds jobs, without locking their rows.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids
-- rows: job_id, state, attempts, worker_id
-- rules: C5, C20
SELECT job.job_id, job.state, job.attempts, job.worker_id
FROM OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
INNER LOOP JOIN {job} AS job
  ON job.job_id = given.job_id
