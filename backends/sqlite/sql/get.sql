-- Reads one job.
-- params: job_id
-- rows: none or one, every column
SELECT job_id, queue, kind, payload, payload_version, state, priority, run_at, attempts, max_attempts, worker_id,
  lease_until, enqueued_at, claimed_at, finished_at, last_error{columns}
FROM {job}
WHERE job_id = :job_id
