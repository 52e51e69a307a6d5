-- Stops claims of a queue.
-- params: $1 queue
-- rows: none; rules C7
INSERT INTO {job_queue} AS q (queue, paused_at)
VALUES ($1, clock_timestamp())
ON CONFLICT (queue) DO UPDATE SET paused_at = COALESCE(q.paused_at, EXCLUDED.paused_at)
