-- Lets a queue be claimed again.
-- params: @P1 NVARCHAR(128) queue
-- rows: none
-- rules: C7
DELETE FROM {job_queue}
WHERE queue = @P1
