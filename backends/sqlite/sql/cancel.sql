-- Makes one ready or running job dead; its state was read in the same transaction.
-- params: job_id, now, error
-- rows: none; one changed
-- rules: C20
UPDATE {job}
SET state = 'dead',
  finished_at = :now,
  worker_id = NULL,
  lease_until = NULL,
  last_error = :error
WHERE job_id = :job_id
