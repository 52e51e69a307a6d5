-- Looks which leases are over, of rows that lock has locked: UTC_TIMESTAMP is fixed when a statement
-- starts, so the one that waited cannot tell.
-- params: job ids as JSON [id, ...]; rows: job id, over (of a row that is not running: false), now
-- rules: C13, C14, C24 (FOR UPDATE: a plain read at REPEATABLE READ sees an old snapshot)
SELECT
    j.job_id,
    COALESCE(j.lease_until <= UTC_TIMESTAMP(6), FALSE),
    UTC_TIMESTAMP(6)
FROM (
    SELECT t.job_id
    FROM JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
) AS d
STRAIGHT_JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = d.job_id
FOR UPDATE
