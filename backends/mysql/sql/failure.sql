-- Records failed attempts: those a worker reported, and those the reaper found.
-- params: now; cause; JSON [[job id, attempt, worker, error], ...]
-- rules: C18, C24 (the first record of an attempt stays; an old one refuses no job's failure)
INSERT INTO {job_failure} (job_id, attempt, worker_id, at, cause, error)
SELECT
    t.job_id,
    t.attempt,
    t.worker_id,
    ?,
    ?,
    t.error
FROM JSON_TABLE(?, '$[*]' COLUMNS (
    job_id BIGINT PATH '$[0]',
    attempt INT PATH '$[1]',
    worker_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[2]',
    error LONGTEXT CHARACTER SET utf8mb4 COLLATE {collation} PATH '$[3]'
)) AS t
ON DUPLICATE KEY UPDATE job_id = {job_failure}.job_id
