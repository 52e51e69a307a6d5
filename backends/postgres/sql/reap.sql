-- Moves locked overdue jobs to ready, or to dead when no attempt is left, and records each lost
-- attempt.
-- params: $1 job_ids, $2 delays in us
-- rows: (job_id, queue, attempts, the worker that lost it, state, run_at); rules C18 C19
WITH lost AS MATERIALIZED (
  SELECT j.job_id, j.worker_id, j.attempts >= j.max_attempts AS dies, t.place,
    clock_timestamp() AS now, t.delay_us * INTERVAL '1 microsecond' AS delay
  FROM unnest($1::BIGINT[], $2::BIGINT[]) WITH ORDINALITY AS t (job_id, delay_us, place)
  JOIN {job} AS j ON j.job_id = t.job_id
), moved AS (
  UPDATE {job} AS j
  SET state = CASE WHEN l.dies THEN 'dead' ELSE 'ready' END,
    run_at = CASE WHEN l.dies THEN j.run_at ELSE l.now + l.delay END,
    finished_at = CASE WHEN l.dies THEN l.now END,
    last_error = 'lease expired',
    worker_id = NULL,
    lease_until = NULL
  FROM lost AS l
  WHERE j.job_id = l.job_id AND j.state = 'running'
  RETURNING j.job_id, j.queue, j.attempts, l.worker_id, j.state, j.run_at, l.now, l.place
), recorded AS (
  INSERT INTO {job_failure} (job_id, attempt, worker_id, at, cause, error)
  SELECT m.job_id, m.attempts, m.worker_id, m.now, 'reaped', 'lease expired'
  FROM moved AS m
  -- An attempt is lost once, unless somebody lowered attempts by hand; that must not keep the job
  -- running.
  ON CONFLICT (job_id, attempt) DO NOTHING
)
SELECT job_id, queue, attempts, worker_id, state, run_at
FROM moved
ORDER BY place
