-- Finds and locks running jobs whose lease has run out, the oldest deadline first, past rows that others hold.
-- params: @P1 INT limit
-- rows: job_id, queue, attempts, worker_id
-- rules: C18. The lease index holds the deadline of every running job; of others it is NULL, and not in the range.
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
SELECT TOP (@P1) job.job_id, job.queue, job.attempts, job.worker_id
FROM {job} AS job WITH ({hints}, INDEX({name}_lease))
WHERE job.lease_until <= @now
ORDER BY job.lease_until, job.job_id
