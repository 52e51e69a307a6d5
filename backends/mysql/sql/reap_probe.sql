-- Tells without a lock whether reap_select would find anything.
-- params: none
-- rows: one job id; none when nothing is overdue
-- rules: C18, C21
SELECT j.job_id
FROM {job} AS j FORCE INDEX ({name}_lease)
WHERE j._reap_at <= UTC_TIMESTAMP(6)
ORDER BY j._reap_at, j.job_id
LIMIT 1
