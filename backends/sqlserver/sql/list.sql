-- Reads one page of jobs, by id from low to high.
-- params: @P1 INT limit; @P2 BIGINT after; @P3 NVARCHAR(128) queue; @P4 NVARCHAR(16) state; @P5 NVARCHAR(128) kind (each NULL for all)
-- rows: every column
-- Planned anew for each call, because the best index depends on which of the filters are given.
SELECT TOP (@P1) job_id, queue, kind, payload, payload_version, state, priority,
  DATEDIFF_BIG(MICROSECOND, '19700101', run_at) AS run_at, attempts, max_attempts, worker_id,
  DATEDIFF_BIG(MICROSECOND, '19700101', lease_until) AS lease_until,
  DATEDIFF_BIG(MICROSECOND, '19700101', enqueued_at) AS enqueued_at,
  DATEDIFF_BIG(MICROSECOND, '19700101', claimed_at) AS claimed_at,
  DATEDIFF_BIG(MICROSECOND, '19700101', finished_at) AS finished_at, last_error{columns}
FROM {job}
WHERE job_id > @P2
  AND (@P3 IS NULL OR queue = @P3)
  AND (@P4 IS NULL OR state = @P4)
  AND (@P5 IS NULL OR kind = @P5)
ORDER BY job_id
OPTION (RECOMPILE)
