-- Makes one ready or running job dead; its row is locked and its state was read in the same transaction.
-- params: @P1 BIGINT job_id; @P2 NVARCHAR(MAX) error
-- rows: none
-- rules: C20
UPDATE {job}
SET state = N'dead',
  finished_at = SYSUTCDATETIME(),
  worker_id = NULL,
  lease_until = NULL,
  last_error = @P2
WHERE job_id = @P1
