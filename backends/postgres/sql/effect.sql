-- Records an effect of the claim's job if the claim holds; the row itself is locked and stays as it
-- is.
-- params: $1 job_id, $2 attempt, $3 worker, $4 effect
-- rows: one (whether the claim holds, whether the effect is new); rules C13 C14 C17
WITH locked AS MATERIALIZED (
  SELECT j.job_id, j.state, j.attempts, j.worker_id, j.lease_until
  FROM {job} AS j
  WHERE j.job_id = $1
  FOR NO KEY UPDATE
), held AS MATERIALIZED (
  SELECT l.job_id
  FROM locked AS l
  WHERE l.state = 'running' AND l.attempts = $2 AND l.worker_id = $3 AND l.lease_until > clock_timestamp()
), stored AS (
  INSERT INTO {job_effect} (job_id, name)
  SELECT h.job_id, $4
  FROM held AS h
  ON CONFLICT (job_id, name) DO NOTHING
  RETURNING job_id
)
SELECT EXISTS (SELECT FROM held), EXISTS (SELECT FROM stored)
