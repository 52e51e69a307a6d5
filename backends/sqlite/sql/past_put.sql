-- Remembers the dedup key of a finished job that another job takes over, for its replay.
-- params: job_id, key, scope
-- rows: none; one stored
-- rules: C20
INSERT INTO {job_dedup_past} (job_id, dedup_key, scope)
VALUES (:job_id, :key, :scope)
ON CONFLICT (job_id) DO UPDATE
SET dedup_key = excluded.dedup_key,
  scope = excluded.scope
