-- Locks the dedup key that names a job, so that nobody takes it over meanwhile.
-- params: $1 job_id
-- rows: none or one (job_id); rules C20
SELECT d.job_id
FROM {job_dedup} AS d
WHERE d.job_id = $1
FOR UPDATE
