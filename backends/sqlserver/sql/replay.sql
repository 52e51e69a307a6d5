-- Makes one dead job ready again; its row is locked and its state was read in the same transaction.
-- params: @P1 BIGINT job_id; @P2 INT extra
-- rows: one (max_attempts)
-- rules: C19, C20
UPDATE {job}
SET state = N'ready',
  run_at = SYSUTCDATETIME(),
  max_attempts = attempts + @P2,
  finished_at = NULL,
  last_error = NULL
OUTPUT inserted.max_attempts
WHERE job_id = @P1
