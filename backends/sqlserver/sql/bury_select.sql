-- Finds ready jobs that have no attempt left, without locking them.
-- params: @P1 INT limit
-- rows: job_id, queue, attempts
-- rules: C21. Reads the ready part of one index: a filtered index would break writers with other SET options.
SELECT TOP (@P1) job.job_id, job.queue, job.attempts
FROM {job} AS job WITH (READPAST, READCOMMITTEDLOCK)
WHERE job.state = N'ready'
  AND job.attempts >= job.max_attempts
ORDER BY job.queue, job.priority DESC, job.run_at, job.job_id
