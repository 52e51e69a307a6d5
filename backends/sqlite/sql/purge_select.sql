-- Finds old finished jobs behind a cursor, oldest first, each state by its own window.
-- params: succeeded_until, dead_until (NULL keeps them), finished_at and job_id of the cursor, limit
-- rows: job_id, finished_at
-- rules: C22. Two ordered index scans, merged: rows of a state that is kept are not read.
SELECT job_id, finished_at
FROM {job}
WHERE state = 'succeeded'
  AND finished_at <= +:succeeded_until
  AND (finished_at, job_id) > (+:finished_at, +:job_id)
UNION ALL
SELECT job_id, finished_at
FROM {job}
WHERE state = 'dead'
  AND finished_at <= +:dead_until
  AND (finished_at, job_id) > (+:finished_at, +:job_id)
ORDER BY finished_at, job_id
LIMIT +:limit
