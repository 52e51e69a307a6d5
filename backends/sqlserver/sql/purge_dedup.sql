-- Deletes what {job_dedup} holds of deleted jobs.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids
-- rows: none
-- rules: C22
DELETE dedup
FROM {job_dedup} AS dedup
INNER JOIN OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
  ON given.job_id = dedup.job_id
