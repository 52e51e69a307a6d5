-- Locks jobs in the order given, waiting for each, and reads who holds them.
-- params: job ids as JSON [id, ...], ascending
-- rows: job id, state, attempts, max_attempts, worker, one per job that there is
-- rules: C14, C15, C16 (a derived table: MySQL prepares no lock on JSON_TABLE itself, error 3569)
SELECT j.job_id, j.state, j.attempts, j.max_attempts, j.worker_id
FROM (
    SELECT t.job_id
    FROM JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
) AS d
STRAIGHT_JOIN {job} AS j FORCE INDEX (PRIMARY)
    ON j.job_id = d.job_id
FOR UPDATE
