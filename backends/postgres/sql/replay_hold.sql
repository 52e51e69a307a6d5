-- Writes the dedup key that names a job, unchanged: nobody takes it over meanwhile, and a
-- REPEATABLE READ transaction that has seen the job finished fails with 40001 when it tries to.
-- params: $1 job_id
-- rows: none or one (job_id); rules C5 C20
UPDATE {job_dedup} AS d
SET scope = d.scope
WHERE d.job_id = $1
RETURNING d.job_id
