-- Deletes the failures of deleted jobs.
-- params: job ids as JSON [id, ...]
-- rules: C22
DELETE s
FROM JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
STRAIGHT_JOIN {job_failure} AS s FORCE INDEX (PRIMARY)
    ON s.job_id = t.job_id
