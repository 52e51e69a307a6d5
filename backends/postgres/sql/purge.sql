-- Deletes locked finished jobs. A constraint of the user's may refuse.
-- params: $1 job_ids
-- rows: none; rules C22
DELETE FROM {job}
WHERE job_id = ANY ($1::BIGINT[]) AND state IN ('succeeded', 'dead')
