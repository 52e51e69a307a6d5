-- Reads the queue and the dedup key that a job was enqueued with.
-- params: job id
-- rules: C20 (the key's row may name another job meanwhile, so the job remembers its own)
SELECT j.queue, j._dedup_key
FROM {job} AS j
WHERE j.job_id = ?
