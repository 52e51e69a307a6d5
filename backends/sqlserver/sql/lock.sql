-- Locks the rows of jobs until the transaction ends, in the order of the ids given, and reads who holds them.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids, from low to high
-- rows: job_id, state, attempts, worker_id
-- rules: C14, C15, C16. The deadline is judged by the next statement, whose clock is read after this wait.
SELECT job.job_id, job.state, job.attempts, job.worker_id
FROM OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
INNER LOOP JOIN {job} AS job WITH (UPDLOCK, ROWLOCK, FORCESEEK)
  ON job.job_id = given.job_id
