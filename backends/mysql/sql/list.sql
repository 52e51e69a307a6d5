-- Reads one page of jobs by id, every column.
-- params: id to start behind; queue or NULL, twice; state or NULL, twice; kind or NULL, twice;
-- limit
SELECT
    j.job_id, j.queue, j.kind, j.payload, j.payload_version, j.state, j.priority, j.run_at,
    j.attempts, j.max_attempts, j.worker_id, j.lease_until, j.enqueued_at, j.claimed_at,
    j.finished_at, j.last_error{columns}
FROM {job} AS j FORCE INDEX (PRIMARY)
WHERE j.job_id > ?
    AND (? IS NULL OR j.queue = ?)
    AND (? IS NULL OR j.state = ?)
    AND (? IS NULL OR j.kind = ?)
ORDER BY j.job_id
LIMIT ?
