-- Gives up jobs whose claims judge found to hold: ready again, or dead. No assignment reads what
-- another one sets: in an UPDATE of a join they are made in any order.
-- params: JSON [[id, state, delay in us, more attempts, replaces error, error], ...]; now, twice
-- rules: C13, C19, C24
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    job_id BIGINT PATH '$[0]',
    state VARCHAR(16) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[1]',
    delay_us BIGINT PATH '$[2]',
    more INT PATH '$[3]',
    replaces INT PATH '$[4]',
    error LONGTEXT CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[5]'
)) AS t
STRAIGHT_JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = t.job_id
SET
    j.state = t.state,
    j.run_at = CASE
        WHEN t.state = 'ready' THEN ? + INTERVAL t.delay_us MICROSECOND
        ELSE j.run_at
    END,
    j.finished_at = CASE WHEN t.state = 'dead' THEN ? END,
    j.max_attempts = j.max_attempts + t.more,
    j.last_error = CASE WHEN t.replaces = 1 THEN t.error ELSE j.last_error END,
    j.worker_id = NULL,
    j.lease_until = NULL
