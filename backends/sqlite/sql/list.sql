-- Reads one page of jobs, by id from low to high.
-- params: after, queue, state, kind (each NULL for all), limit
-- rows: every column
SELECT job_id, queue, kind, payload, payload_version, state, priority, run_at, attempts, max_attempts, worker_id,
  lease_until, enqueued_at, claimed_at, finished_at, last_error{columns}
FROM {job}
WHERE job_id > +:after
  AND (:queue IS NULL OR queue = +:queue)
  AND (:state IS NULL OR state = +:state)
  AND (:kind IS NULL OR kind = +:kind)
ORDER BY job_id
LIMIT +:limit
