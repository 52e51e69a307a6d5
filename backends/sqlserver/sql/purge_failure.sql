-- Deletes what {job_failure} holds of deleted jobs.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids
-- rows: none
-- rules: C22
DELETE failure
FROM {job_failure} AS failure
INNER JOIN OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
  ON given.job_id = failure.job_id
