-- Deletes what {job_failure} holds of one deleted job.
-- params: job_id
-- rows: none
-- rules: C22
DELETE FROM {job_failure}
WHERE job_id = :job_id
