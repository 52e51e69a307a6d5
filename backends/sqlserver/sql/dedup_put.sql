-- Gives dedup keys that this transaction holds to jobs.
-- params: @P1 NVARCHAR(MAX) JSON array of [queue, key, scope, job_id]
-- rows: none
-- rules: C5, C20
UPDATE dedup
SET job_id = given.job_id,
  scope = given.scope
FROM OPENJSON(@P1) WITH (
  queue NVARCHAR(128) '$[0]',
  dedup_key NVARCHAR(256) '$[1]',
  scope NVARCHAR(16) '$[2]',
  job_id BIGINT '$[3]'
) AS given
INNER LOOP JOIN {job_dedup} AS dedup
  ON dedup.queue = given.queue COLLATE Latin1_General_100_BIN2
  AND dedup.dedup_key = given.dedup_key COLLATE Latin1_General_100_BIN2
