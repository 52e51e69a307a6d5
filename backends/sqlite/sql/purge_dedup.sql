-- Deletes what {job_dedup} holds of one deleted job.
-- params: job_id
-- rows: none
-- rules: C22
DELETE FROM {job_dedup}
WHERE job_id = :job_id
