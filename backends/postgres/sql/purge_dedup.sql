-- Deletes the dedup keys that still name deleted jobs, locking them in the order in which enqueue
-- does.
-- params: $1 job_ids
-- rows: none; rules C5 C22
WITH named AS MATERIALIZED (
  SELECT d.queue, d.dedup_key
  FROM {job_dedup} AS d
  WHERE d.job_id = ANY ($1::BIGINT[])
  ORDER BY d.queue, d.dedup_key
  FOR UPDATE
)
DELETE FROM {job_dedup} AS d
USING named AS n
WHERE d.queue = n.queue AND d.dedup_key = n.dedup_key
