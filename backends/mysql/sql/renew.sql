-- Moves the deadlines of claims whose rows lock has locked, where the lease is not over.
-- params: job ids as JSON [id, ...]; lease in microseconds
-- rules: C13, C14 (this statement starts, and reads its clock, when the locks are had), C24
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
STRAIGHT_JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = t.job_id
SET j.lease_until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
WHERE j.lease_until > UTC_TIMESTAMP(6)
