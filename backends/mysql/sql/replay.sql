-- Makes a locked dead job ready again, due at once.
-- params: extra attempts; job id
-- rules: C19, C20, C24
UPDATE {job} AS j
SET
    j.state = 'ready',
    j.run_at = UTC_TIMESTAMP(6),
    j.max_attempts = j.attempts + ?,
    j.finished_at = NULL,
    j.last_error = NULL
WHERE j.job_id = ?
