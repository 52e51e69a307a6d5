-- Stops claims of a queue; a queue that is paused stays paused since then.
-- params: queue, now
-- rows: none; one inserted unless it is there
-- rules: C7
INSERT INTO {job_queue} (queue, paused_at)
VALUES (:queue, :now)
ON CONFLICT (queue) DO NOTHING
