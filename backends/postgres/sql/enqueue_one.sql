-- Stores one job without a dedup key. Exported for services on another driver.
-- params: $1 queue, $2 kind, $3 payload, $4 payload version, $5 priority, $6 delay in us,
--   $7 max attempts, $8.. one value per business column
-- rows: (job_id); rules C1 C4 C24
INSERT INTO {job} (queue, kind, payload, payload_version, priority, run_at, max_attempts, enqueued_at{columns})
SELECT $1::TEXT, $2::TEXT, $3::TEXT::JSON, $4::INTEGER, $5::INTEGER,
  i.now + $6::BIGINT * INTERVAL '1 microsecond', $7::INTEGER, i.now{column_params}
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS i
RETURNING job_id
