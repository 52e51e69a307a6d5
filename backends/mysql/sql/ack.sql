-- Finishes jobs whose rows lock has locked for their claims, where the lease is not over.
-- params: job ids as JSON [id, ...]
-- rules: C13, C14 (this statement starts, and reads its clock, when the locks are had), C24
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
STRAIGHT_JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = t.job_id
SET
    j.state = 'succeeded',
    j.finished_at = UTC_TIMESTAMP(6),
    j.worker_id = NULL,
    j.lease_until = NULL,
    j.last_error = NULL
WHERE j.lease_until > UTC_TIMESTAMP(6)
