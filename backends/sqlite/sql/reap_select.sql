-- Finds running jobs whose lease has run out, the oldest deadline first.
-- params: now, limit
-- rows: job_id, queue, attempts, worker_id
-- rules: C18
SELECT job_id, queue, attempts, worker_id
FROM {job}
WHERE state = 'running'
  AND lease_until <= +:now
ORDER BY lease_until, job_id
LIMIT +:limit
