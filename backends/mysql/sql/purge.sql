-- Deletes locked finished jobs.
-- params: job ids as JSON [id, ...]
-- rules: C22
DELETE j
FROM JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
STRAIGHT_JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = t.job_id
