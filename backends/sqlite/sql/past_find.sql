-- Reads the dedup key that another job took over from this one.
-- params: job_id
-- rows: none or one (dedup_key, scope)
-- rules: C20
SELECT dedup_key, scope
FROM {job_dedup_past}
WHERE job_id = :job_id
