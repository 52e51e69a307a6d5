-- Stores the claim of jobs that claim_select has locked.
-- params: job ids as JSON [id, ...]; worker; now, as claim_select read it; lease in microseconds;
-- now
-- rules: C8, C24
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
STRAIGHT_JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = t.job_id
SET
    j.state = 'running',
    j.attempts = j.attempts + 1,
    j.worker_id = ?,
    j.lease_until = ? + INTERVAL ? MICROSECOND,
    j.claimed_at = ?
