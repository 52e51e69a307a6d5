-- Forgets the past dedup keys of jobs: they take them back, or they are deleted.
-- params: @P1 NVARCHAR(MAX) JSON array of job ids
-- rows: none
-- rules: C20, C22
DELETE past
FROM OPENJSON(@P1) WITH (job_id BIGINT '$') AS given
INNER LOOP JOIN {job_dedup_past} AS past
  ON past.job_id = given.job_id
