-- Reads the holder of each locked key. For READ COMMITTED, where a plain read is the latest.
-- params: JSON [[ordinal, queue, key, scope], ...]
-- rows: ordinal, job id, scope, state (NULL when the job is gone)
-- rules: C5
SELECT
    t.ordinal,
    d.job_id,
    d.scope,
    j.state
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    ordinal INT PATH '$[0]',
    queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[1]',
    dedup_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[2]'
)) AS t
STRAIGHT_JOIN {job_dedup} AS d FORCE INDEX (PRIMARY)
    ON d.queue = t.queue
    AND d.dedup_key = t.dedup_key
LEFT JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = d.job_id
