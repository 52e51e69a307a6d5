-- Gives a dedup key to a job, in place of a finished or deleted one.
-- params: queue, key, job_id, scope
-- rows: none; one stored
-- rules: C5, C20
INSERT INTO {job_dedup} (queue, dedup_key, job_id, scope)
VALUES (:queue, :key, :job_id, :scope)
ON CONFLICT (queue, dedup_key) DO UPDATE
SET job_id = excluded.job_id,
  scope = excluded.scope
