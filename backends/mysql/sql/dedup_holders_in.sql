-- As dedup_holders, for a caller's transaction: at REPEATABLE READ a plain read may be too old to
-- trust, so the holder's row is locked, and waited for. A new key has none (id 0): not looked for,
-- since that would lock the gap where others insert.
-- params: JSON [[ordinal, queue, key, scope], ...]
-- rows: ordinal, job id, scope, state (NULL when the job is gone)
SELECT
    k.ordinal,
    d.job_id,
    d.scope,
    j.state
FROM (
    SELECT t.ordinal, t.queue, t.dedup_key
    FROM JSON_TABLE(?, '$[*]' COLUMNS (
        ordinal INT PATH '$[0]',
        queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[1]',
        dedup_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[2]'
    )) AS t
) AS k
STRAIGHT_JOIN {job_dedup} AS d FORCE INDEX (PRIMARY)
    ON d.queue = k.queue
    AND d.dedup_key = k.dedup_key
LEFT JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = NULLIF(d.job_id, 0)
LOCK IN SHARE MODE
