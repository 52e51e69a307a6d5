-- Gives up the jobs of the claims that hold, and records each failed attempt; past rows that
-- somebody else has locked, of which lock.sql leaves none.
-- params: $1 job_ids, $2 attempts, $3 workers, $4 actions, $5 delays in us, $6 errors; each job once
-- rows: (job_id, state, run_at) of the claims that held; rules C13 C14 C16 C19
WITH locked AS MATERIALIZED (
  SELECT j.job_id, j.state, j.attempts, j.max_attempts, j.worker_id, j.lease_until, t.attempt, t.worker, t.action,
    t.delay_us, t.error
  FROM unnest($1::BIGINT[], $2::INTEGER[], $3::TEXT[], $4::TEXT[], $5::BIGINT[], $6::TEXT[])
    AS t (job_id, attempt, worker, action, delay_us, error)
  JOIN {job} AS j ON j.job_id = t.job_id
  ORDER BY j.job_id
  FOR NO KEY UPDATE OF j SKIP LOCKED
), judged AS MATERIALIZED (
  SELECT l.*, clock_timestamp() AS now,
    l.action = 'dead' OR (l.action = 'retry' AND l.attempts >= l.max_attempts) AS dies
  FROM locked AS l
), failed AS (
  UPDATE {job} AS j
  SET state = CASE WHEN l.dies THEN 'dead' ELSE 'ready' END,
    run_at = CASE WHEN l.dies THEN j.run_at ELSE l.now + l.delay_us * INTERVAL '1 microsecond' END,
    finished_at = CASE WHEN l.dies THEN l.now END,
    max_attempts = j.max_attempts + CASE WHEN l.action = 'release' THEN 1 ELSE 0 END,
    last_error = CASE WHEN l.action = 'release' THEN COALESCE(l.error, j.last_error) ELSE l.error END,
    worker_id = NULL,
    lease_until = NULL
  FROM judged AS l
  WHERE j.job_id = l.job_id
    AND l.state = 'running'
    AND l.attempts = l.attempt
    AND l.worker_id = l.worker
    AND l.lease_until > l.now
  RETURNING j.job_id, j.state, j.run_at, l.attempt, l.worker, l.action, l.now, l.error
), recorded AS (
  INSERT INTO {job_failure} (job_id, attempt, worker_id, at, cause, error)
  SELECT f.job_id, f.attempt, f.worker, f.now, 'failed', f.error
  FROM failed AS f
  WHERE f.action <> 'release'
  -- An attempt fails once, unless somebody lowered attempts by hand; that must not keep the job
  -- running.
  ON CONFLICT (job_id, attempt) DO NOTHING
)
SELECT job_id, state, run_at
FROM failed
