-- Finds ready jobs that have no attempt left; an index holds exactly these.
-- params: limit
-- rows: job_id, queue, attempts
-- rules: C21
SELECT job_id, queue, attempts
FROM {job}
WHERE state = 'ready'
  AND attempts >= max_attempts
ORDER BY job_id
LIMIT +:limit
