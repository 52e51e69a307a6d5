-- Locks dedup keys until the transaction ends, and reads whom they name (0 for the keys just taken).
-- params: @P1 NVARCHAR(MAX) JSON array of [queue, key, scope]
-- rows: queue, dedup_key, job_id, scope
-- rules: C5, C20
SELECT dedup.queue, dedup.dedup_key, dedup.job_id, dedup.scope
FROM OPENJSON(@P1) WITH (
  queue NVARCHAR(128) '$[0]',
  dedup_key NVARCHAR(256) '$[1]'
) AS given
INNER LOOP JOIN {job_dedup} AS dedup WITH (UPDLOCK, ROWLOCK)
  ON dedup.queue = given.queue COLLATE Latin1_General_100_BIN2
  AND dedup.dedup_key = given.dedup_key COLLATE Latin1_General_100_BIN2
