-- Deletes what {job_effect} holds of deleted jobs.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids
-- rows: none
-- rules: C22
DELETE effect
FROM {job_effect} AS effect
INNER JOIN OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
  ON given.job_id = effect.job_id
