-- Reads one job, every column.
-- params: job id
SELECT
    j.job_id, j.queue, j.kind, j.payload, j.payload_version, j.state, j.priority, j.run_at,
    j.attempts, j.max_attempts, j.worker_id, j.lease_until, j.enqueued_at, j.claimed_at,
    j.finished_at, j.last_error{columns}
FROM {job} AS j
WHERE j.job_id = ?
