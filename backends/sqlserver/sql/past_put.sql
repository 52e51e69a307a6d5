-- Remembers the dedup keys of finished jobs that other jobs take over, for a replay.
-- params: @P1 NVARCHAR(MAX) JSON array of [job_id, key, scope]
-- rows: none
-- rules: C20
INSERT INTO {job_dedup_past} (job_id, dedup_key, scope)
SELECT given.job_id, given.dedup_key, given.scope
FROM OPENJSON(@P1) WITH (
  job_id BIGINT '$[0]',
  dedup_key NVARCHAR(256) '$[1]',
  scope NVARCHAR(16) '$[2]'
) AS given
