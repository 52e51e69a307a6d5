-- Gives dedup keys to new jobs, and remembers for the jobs they are taken from which key they had.
-- params: $1 queues, $2 keys, $3 job_ids, $4 scopes
-- rows: none; rules C5 C20
WITH taken AS MATERIALIZED (
  SELECT t.queue, t.dedup_key, t.job_id, t.scope, d.job_id AS past_id, d.scope AS past_scope
  FROM unnest($1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::TEXT[]) AS t (queue, dedup_key, job_id, scope)
  JOIN {job_dedup} AS d ON d.queue = t.queue AND d.dedup_key = t.dedup_key
), remembered AS (
  INSERT INTO {job_dedup_past} (job_id, dedup_key, scope)
  SELECT t.past_id, t.dedup_key, t.past_scope
  FROM taken AS t
  WHERE EXISTS (SELECT FROM {job} AS j WHERE j.job_id = t.past_id)
  ON CONFLICT (job_id) DO UPDATE SET dedup_key = EXCLUDED.dedup_key, scope = EXCLUDED.scope
)
UPDATE {job_dedup} AS d
SET job_id = t.job_id, scope = t.scope
FROM taken AS t
WHERE d.queue = t.queue AND d.dedup_key = t.dedup_key
