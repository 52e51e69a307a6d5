-- Reads the dedup key that another job took over from this one. Runs after replay_hold.sql, to see
-- who just did.
-- params: $1 job_id
-- rows: none or one (queue, dedup_key, scope); rules C20
SELECT j.queue, p.dedup_key, p.scope
FROM {job_dedup_past} AS p
JOIN {job} AS j ON j.job_id = p.job_id
WHERE p.job_id = $1
