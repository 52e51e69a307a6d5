-- Makes a locked ready or running job dead.
-- params: $1 job_id, $2 reason
-- rows: none; rules C20
UPDATE {job} AS j
SET state = 'dead',
  finished_at = clock_timestamp(),
  last_error = $2,
  worker_id = NULL,
  lease_until = NULL
WHERE j.job_id = $1 AND j.state IN ('ready', 'running')
