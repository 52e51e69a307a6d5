-- Reads one job.
-- params: @P1 BIGINT job_id
-- rows: none or one, every column
SELECT job_id, queue, kind, payload, payload_version, state, priority,
  DATEDIFF_BIG(MICROSECOND, '19700101', run_at) AS run_at, attempts, max_attempts, worker_id,
  DATEDIFF_BIG(MICROSECOND, '19700101', lease_until) AS lease_until,
  DATEDIFF_BIG(MICROSECOND, '19700101', enqueued_at) AS enqueued_at,
  DATEDIFF_BIG(MICROSECOND, '19700101', claimed_at) AS claimed_at,
  DATEDIFF_BIG(MICROSECOND, '19700101', finished_at) AS finished_at, last_error{columns}
FROM {job}
WHERE job_id = @P1
