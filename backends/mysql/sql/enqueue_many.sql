-- Stores many jobs. Their ids need not be consecutive, so each row has a mark to find it again by.
-- params: JSON [[mark, queue, kind, payload, payload version, priority, delay, max attempts, key,
-- columns ...], ...]
-- rules: C1, C4, C6, C24
INSERT INTO {job} (
    queue, kind, payload, payload_version, state, priority, run_at, attempts, max_attempts,
    enqueued_at, _dedup_key, _mark{insert_columns}
)
SELECT
    t.queue, t.kind, t.payload, t.payload_version, 'ready', t.priority,
    UTC_TIMESTAMP(6) + INTERVAL t.delay_us MICROSECOND, 0, t.max_attempts, UTC_TIMESTAMP(6),
    t.dedup_key, t.mark{table_columns}
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    mark BIGINT PATH '$[0]',
    queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[1]',
    kind VARCHAR(128) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[2]',
    payload LONGTEXT CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[3]',
    payload_version INT PATH '$[4]',
    priority INT PATH '$[5]',
    delay_us BIGINT PATH '$[6]',
    max_attempts INT PATH '$[7]',
    dedup_key VARCHAR(256) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[8]'{json_columns}
)) AS t
