-- Moves the deadlines of the claims that hold and whose rows nobody else has locked. Each row is
-- judged by its locked version, at an instant after its lock. After lock.sql none is left out.
-- params: $1 job_ids, $2 attempts, $3 workers, $4 lease in us; each job once
-- rows: (job_id) of the claims that hold; rules C13 C14 C16
WITH locked AS MATERIALIZED (
  SELECT j.job_id, j.state, j.attempts, j.worker_id, j.lease_until, t.attempt, t.worker
  FROM unnest($1::BIGINT[], $2::INTEGER[], $3::TEXT[]) AS t (job_id, attempt, worker)
  JOIN {job} AS j ON j.job_id = t.job_id
  ORDER BY j.job_id
  FOR NO KEY UPDATE OF j SKIP LOCKED
), judged AS MATERIALIZED (
  SELECT l.*, clock_timestamp() AS now
  FROM locked AS l
)
UPDATE {job} AS j
SET lease_until = l.now + $4::BIGINT * INTERVAL '1 microsecond'
FROM judged AS l
WHERE j.job_id = l.job_id
  AND l.state = 'running'
  AND l.attempts = l.attempt
  AND l.worker_id = l.worker
  AND l.lease_until > l.now
RETURNING j.job_id
