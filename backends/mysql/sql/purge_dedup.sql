-- Deletes the dedup keys that still name deleted jobs.
-- params: job ids as JSON [id, ...]
-- rules: C22
DELETE s
FROM JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
STRAIGHT_JOIN {job_dedup} AS s FORCE INDEX ({name}_dedup_job)
    ON s.job_id = t.job_id
