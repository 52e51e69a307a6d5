-- Locks old finished jobs of one state, oldest first.
-- params: state; age in microseconds; end of the last row before, twice; its id; limit
-- rows: job id, finished_at; rows that others hold are skipped
-- rules: C22, C24
SELECT j.job_id, j.finished_at
FROM {job} AS j FORCE INDEX ({name}_retention)
WHERE j.state = ?
    AND j.finished_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND
    AND j.finished_at >= ?
    AND (j.finished_at > ? OR j.job_id > ?)
ORDER BY j.finished_at, j.job_id
LIMIT ?
FOR UPDATE SKIP LOCKED
