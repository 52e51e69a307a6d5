-- Makes a locked ready or running job dead.
-- params: reason; job id
-- rules: C20, C24
UPDATE {job} AS j
SET
    j.state = 'dead',
    j.finished_at = UTC_TIMESTAMP(6),
    j.last_error = ?,
    j.worker_id = NULL,
    j.lease_until = NULL
WHERE j.job_id = ?
