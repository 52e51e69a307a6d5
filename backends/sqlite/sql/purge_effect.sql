-- Deletes what {job_effect} holds of one deleted job.
-- params: job_id
-- rows: none
-- rules: C22
DELETE FROM {job_effect}
WHERE job_id = :job_id
