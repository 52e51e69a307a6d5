-- Lets a queue be claimed again.
-- params: $1 queue
-- rows: none; rules C7
DELETE FROM {job_queue}
WHERE queue = $1
