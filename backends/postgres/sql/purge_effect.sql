-- Deletes the effects of deleted jobs.
-- params: $1 job_ids
-- rows: none; rules C22
DELETE FROM {job_effect}
WHERE job_id = ANY ($1::BIGINT[])
