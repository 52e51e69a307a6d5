-- Reads the dedup key that a job holds, or held until another job took it over.
-- params: @P1 BIGINT job_id
-- rows: none or one (dedup_key, scope)
-- rules: C20
SELECT dedup_key, scope
FROM {job_dedup}
WHERE job_id = @P1
UNION ALL
SELECT dedup_key, scope
FROM {job_dedup_past}
WHERE job_id = @P1
