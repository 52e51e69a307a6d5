-- Unmarks a queue.
-- params: queue
DELETE FROM {job_queue}
WHERE queue = ?
