-- Reads which jobs to be purged are still named by a dedup key.
-- params: job ids as JSON [id, ...]
-- rules: C22
SELECT d.job_id
FROM JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
STRAIGHT_JOIN {job_dedup} AS d FORCE INDEX ({name}_dedup_job)
    ON d.job_id = t.job_id
