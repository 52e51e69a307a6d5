-- Locks the keys that name jobs to be purged, but those that an enqueue holds: it may wait for the
-- job's row, so to wait for its key here would deadlock. That job stays for the next batch.
-- params: job ids as JSON [id, ...]
-- rules: C5, C22
SELECT d.job_id
FROM (
    SELECT t.job_id
    FROM JSON_TABLE(?, '$[*]' COLUMNS (job_id BIGINT PATH '$')) AS t
) AS k
STRAIGHT_JOIN {job_dedup} AS d FORCE INDEX ({name}_dedup_job)
    ON d.job_id = k.job_id
FOR UPDATE SKIP LOCKED
