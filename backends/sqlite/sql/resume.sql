-- Lets a queue be claimed again.
-- params: queue
-- rows: none; one deleted if it was paused
-- rules: C7
DELETE FROM {job_queue}
WHERE queue = :queue
