-- Makes one ready job dead that bury_select found in the same transaction.
-- params: job_id, now, error (kept unless there is one)
-- rows: none; one changed
-- rules: C21
UPDATE {job}
SET state = 'dead',
  finished_at = :now,
  last_error = COALESCE(last_error, :error)
WHERE job_id = :job_id
