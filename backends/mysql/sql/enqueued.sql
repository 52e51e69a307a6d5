-- Finds the rows of enqueue_many again, in the order given.
-- params: first id of the statement; first mark; last mark
-- rows: job id
-- rules: C6
SELECT j.job_id
FROM {job} AS j FORCE INDEX (PRIMARY)
WHERE j.job_id >= ?
    AND j._mark BETWEEN ? AND ?
ORDER BY j._mark
