-- Deletes what {job_failure} holds of deleted jobs.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids
-- rows: none
-- rules: C22
DELETE failure
FROM OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
INNER LOOP JOIN {job_failure} AS failure
  ON failure.job_id = given.job_id
