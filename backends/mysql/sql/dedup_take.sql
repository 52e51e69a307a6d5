-- Makes locked keys name their new jobs.
-- params: JSON [[queue, key, job id, scope], ...]
-- rules: C5, C20
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[0]',
    dedup_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[1]',
    job_id BIGINT PATH '$[2]',
    scope VARCHAR(16) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[3]'
)) AS t
STRAIGHT_JOIN {job_dedup} AS d FORCE INDEX (PRIMARY)
    ON d.queue = t.queue
    AND d.dedup_key = t.dedup_key
SET
    d.job_id = t.job_id,
    d.scope = t.scope
