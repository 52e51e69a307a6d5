-- As claim_first, for the kinds and payload versions that a worker can run.
-- params: queue, three times; accepted kinds as JSON [[kind, least, most], ...]; limit
-- rules: C7, C9, C10, C12, C24
SELECT
    j.job_id,
    j.attempts,
    j.kind,
    j.payload,
    j.payload_version,
    j.priority,
    j.run_at,
    j.max_attempts,
    j.enqueued_at,
    j.last_error,
    UTC_TIMESTAMP(6){columns}
FROM {job} AS j FORCE INDEX ({name}_ready)
WHERE j.state = 'ready'
    AND j.queue = ?
    AND j.priority = (
        SELECT h.priority
        FROM {job} AS h FORCE INDEX ({name}_ready)
        WHERE h.state = 'ready'
            AND h.queue = ?
            AND (SELECT COUNT(*) FROM {job_queue} AS q WHERE q.queue = ?) = 0
        ORDER BY h.priority DESC, h.run_at, h.job_id
        LIMIT 1
    )
    AND j.run_at <= UTC_TIMESTAMP(6)
    AND j.attempts < j.max_attempts
    -- a count, because EXISTS could be turned into a join that loses the index order
    AND (
        SELECT COUNT(*)
        FROM JSON_TABLE(?, '$[*]' COLUMNS (
            kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[0]',
            least INT PATH '$[1]',
            most INT PATH '$[2]'
        )) AS a
        WHERE a.kind = j.kind
            AND j.payload_version BETWEEN a.least AND a.most
    ) > 0
ORDER BY j.run_at, j.job_id
LIMIT ?
FOR UPDATE SKIP LOCKED
