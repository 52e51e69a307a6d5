-- Makes one dead job ready again; its state was read in the same transaction.
-- params: job_id, now, extra
-- rows: one (max_attempts)
-- rules: C19, C20
UPDATE {job}
SET state = 'ready',
  run_at = :now,
  max_attempts = attempts + :extra,
  finished_at = NULL,
  last_error = NULL
WHERE job_id = :job_id
RETURNING max_attempts
