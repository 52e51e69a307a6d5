-- Finds the job that a dedup key names.
-- params: queue, key
-- rows: none or one (job_id, scope, state; state is NULL when the job's row is gone)
-- rules: C5
SELECT d.job_id, d.scope, j.state
FROM {job_dedup} AS d
LEFT JOIN {job} AS j ON j.job_id = d.job_id
WHERE d.queue = +:queue
  AND d.dedup_key = +:key
