-- Finishes the jobs of the claims that hold and whose rows nobody else has locked. Each row is judged
-- by its locked version, at an instant after its lock. After lock.sql none is left out.
-- params: $1 job_ids, $2 attempts, $3 workers; each job once
-- rows: (job_id) of the claims that held; rules C13 C14 C16
WITH locked AS MATERIALIZED (
  SELECT j.job_id, j.state, j.attempts, j.worker_id, j.lease_until, t.attempt, t.worker
  FROM unnest($1::BIGINT[], $2::INTEGER[], $3::TEXT[]) AS t (job_id, attempt, worker)
  JOIN {job} AS j ON j.job_id = t.job_id
  ORDER BY j.job_id
  FOR NO KEY UPDATE OF j SKIP LOCKED
)
UPDATE {job} AS j
SET state = 'succeeded', worker_id = NULL, lease_until = NULL, last_error = NULL, finished_at = clock_timestamp()
FROM locked AS l
WHERE j.job_id = l.job_id
  AND l.state = 'running'
  AND l.attempts = l.attempt
  AND l.worker_id = l.worker
  AND l.lease_until > clock_timestamp()
RETURNING j.job_id
