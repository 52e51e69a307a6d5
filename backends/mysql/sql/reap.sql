-- Moves jobs that reap_select has locked: ready after their delay, or dead.
-- params: JSON [[id, state, delay in microseconds, replaces the error, error], ...]; now, as
-- reap_select read it, twice
-- rules: C18, C19, C21, C24
UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
    job_id BIGINT PATH '$[0]',
    state VARCHAR(16) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[1]',
    delay_us BIGINT PATH '$[2]',
    replaces INT PATH '$[3]',
    error LONGTEXT CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[4]'
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
    j.last_error = CASE WHEN t.replaces = 1 THEN t.error ELSE COALESCE(j.last_error, t.error) END,
    j.worker_id = NULL,
    j.lease_until = NULL
