-- Deletes what {job_dedup} holds of deleted jobs.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids
-- rows: none
-- rules: C22
DELETE dedup
FROM OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
INNER LOOP JOIN {job_dedup} AS dedup
  ON dedup.job_id = given.job_id
