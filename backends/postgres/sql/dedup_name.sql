-- Lets a dedup key name a job if it names none, and locks it.
-- params: $1 queue, $2 key, $3 job_id, $4 scope
-- rows: (the id that the key names); rules C20
INSERT INTO {job_dedup} AS d (queue, dedup_key, job_id, scope)
VALUES ($1, $2, $3, $4)
ON CONFLICT (queue, dedup_key) DO UPDATE SET scope = d.scope
RETURNING d.job_id
