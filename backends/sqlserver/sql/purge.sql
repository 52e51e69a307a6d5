-- Deletes jobs that purge_select found, if they still are finished and nobody holds their row.
-- params: @P1 NVARCHAR(MAX) JSON array of [job_id, finished_at]
-- rows: job_id of each deleted row
-- rules: C22. A replayed job has another finished_at, or none.
DELETE job
OUTPUT deleted.job_id
FROM OPENJSON(@P1) WITH (
  job_id BIGINT '$[0]',
  finished_at BIGINT '$[1]'
) AS given
INNER LOOP JOIN {job} AS job WITH ({hints})
  ON job.job_id = given.job_id
WHERE job.state IN (N'succeeded', N'dead')
  AND DATEDIFF_BIG(MICROSECOND, '19700101', job.finished_at) = given.finished_at
