-- Marks a queue as paused. Pausing twice keeps the first instant.
-- params: queue
-- rules: C7, C24
INSERT INTO {job_queue} (queue, paused_at)
VALUES (?, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE paused_at = {job_queue}.paused_at
