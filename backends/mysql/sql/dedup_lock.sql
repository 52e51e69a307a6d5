-- Locks the rows of dedup keys in the order given; makes the missing ones, for no job yet (id 0).
-- params: JSON [[ordinal, queue, key, scope], ...], ascending by queue and key
-- rules: C5 (an update of nothing, and no IGNORE: that takes a shared lock, and would deadlock)
INSERT INTO {job_dedup} (queue, dedup_key, job_id, scope)
SELECT
    t.queue,
    t.dedup_key,
    0,
    t.scope
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[1]',
    dedup_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[2]',
    scope VARCHAR(16) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[3]'
)) AS t
ON DUPLICATE KEY UPDATE job_id = {job_dedup}.job_id
