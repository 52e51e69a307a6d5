-- Forgets that a key was taken from jobs: they took it back, or are deleted.
-- params: $1 job_ids
-- rows: none; rules C20 C22
DELETE FROM {job_dedup_past}
WHERE job_id = ANY ($1::BIGINT[])
