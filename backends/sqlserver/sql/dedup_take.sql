-- Takes dedup keys that nobody holds, for no job yet (0). One that another transaction inserts meanwhile is waited for, and
-- then ignored by the primary key.
-- params: @P1 NVARCHAR(MAX) JSON array of [queue, key, scope]
-- rows: none
-- rules: C5
INSERT INTO {job_dedup} (queue, dedup_key, job_id, scope)
SELECT given.queue, given.dedup_key, 0, given.scope
FROM OPENJSON(@P1) WITH (
  queue NVARCHAR(128) '$[0]',
  dedup_key NVARCHAR(256) '$[1]',
  scope NVARCHAR(16) '$[2]'
) AS given
WHERE NOT EXISTS (
  SELECT 1
  FROM {job_dedup} AS dedup
  WHERE dedup.queue = given.queue COLLATE Latin1_General_100_BIN2
    AND dedup.dedup_key = given.dedup_key COLLATE Latin1_General_100_BIN2
)
