-- Moves the deadline of claims that judge found to hold.
-- params: job ids as JSON [id, ...]; now, as judge read it; lease in microseconds
-- rules: C13, C24
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
STRAIGHT_JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = t.job_id
SET j.lease_until = ? + INTERVAL ? MICROSECOND
