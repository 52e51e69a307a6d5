-- Stops claims of a queue; one that is paused stays paused since then.
-- params: @P1 NVARCHAR(128) queue
-- rows: none
-- rules: C7
INSERT INTO {job_queue} (queue, paused_at)
SELECT @P1, SYSUTCDATETIME()
WHERE NOT EXISTS (SELECT 1 FROM {job_queue} AS paused WHERE paused.queue = @P1)
