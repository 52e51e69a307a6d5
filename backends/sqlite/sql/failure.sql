-- Records a failed or reaped attempt. An attempt that a raw write brought back keeps its last failure.
-- params: job_id, attempt, worker, now, cause, error
-- rows: none; one stored
-- rules: C18
INSERT INTO {job_failure} (job_id, attempt, worker_id, at, cause, error)
VALUES (:job_id, :attempt, :worker, :now, :cause, :error)
ON CONFLICT (job_id, attempt) DO UPDATE
SET worker_id = excluded.worker_id,
  at = excluded.at,
  cause = excluded.cause,
  error = excluded.error
