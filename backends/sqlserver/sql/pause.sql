-- Stops claims of a queue; the primary key ignores a queue that is paused already.
-- params: @P1 NVARCHAR(128) queue
-- rows: none
-- rules: C7
INSERT INTO {job_queue} (queue, paused_at)
VALUES (@P1, SYSUTCDATETIME())
