-- Deletes the remembered dedup key of one job: it is taken back, or the job is deleted.
-- params: job_id
-- rows: none
-- rules: C20, C22
DELETE FROM {job_dedup_past}
WHERE job_id = :job_id
