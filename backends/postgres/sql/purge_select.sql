-- Locks one batch of finished jobs that are old enough, oldest first, behind the cursor.
-- params: $1 age of succeeded jobs in us or NULL, $2 age of dead jobs in us or NULL, $3 and $4 the
--   cursor
-- rows: (job_id, finished_at); rules C22
WITH instant AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), succeeded AS MATERIALIZED (
  SELECT j.job_id, j.finished_at
  FROM {job} AS j
  WHERE j.state = 'succeeded'
    AND j.finished_at <= (SELECT i.now - $1::BIGINT * INTERVAL '1 microsecond' FROM instant AS i)
    AND (j.finished_at, j.job_id) > ($3, $4)
  ORDER BY j.finished_at, j.job_id
  LIMIT {limit}
  FOR UPDATE SKIP LOCKED
), dead AS MATERIALIZED (
  SELECT j.job_id, j.finished_at
  FROM {job} AS j
  WHERE j.state = 'dead'
    AND j.finished_at <= (SELECT i.now - $2::BIGINT * INTERVAL '1 microsecond' FROM instant AS i)
    AND (j.finished_at, j.job_id) > ($3, $4)
  ORDER BY j.finished_at, j.job_id
  LIMIT {limit}
  FOR UPDATE SKIP LOCKED
)
SELECT job_id, finished_at
FROM (SELECT * FROM succeeded UNION ALL SELECT * FROM dead) AS old
ORDER BY finished_at, job_id
LIMIT {limit}
