-- Raises jobs that promote_select has locked to another priority.
-- params: job ids as JSON [id, ...]; priority
-- rules: C28
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
STRAIGHT_JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = t.job_id
SET j.priority = ?
