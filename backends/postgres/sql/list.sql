-- Reads one page of jobs, by id from low to high.
-- params: $1 queue or NULL, $2 state or NULL, $3 kind or NULL, $4 the last id of the page before,
--   $5 most rows
-- rows: the jobs
SELECT j.job_id, j.queue, j.kind, j.payload, j.payload_version, j.state, j.priority, j.run_at, j.attempts,
  j.max_attempts, j.worker_id, j.lease_until, j.enqueued_at, j.claimed_at, j.finished_at, j.last_error, {column_texts}
FROM {job} AS j
WHERE j.job_id > $4
  AND ($1::TEXT IS NULL OR j.queue = $1)
  AND ($2::TEXT IS NULL OR j.state = $2)
  AND ($3::TEXT IS NULL OR j.kind = $3)
ORDER BY j.job_id
LIMIT $5
