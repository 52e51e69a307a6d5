-- Tells outside a transaction whether reap_select.sql or bury.sql would find anything.
-- params: none
-- rows: one; NULL where only the reap can tell, as in claim_probe.sql; rules C18 C21
SELECT CASE
  WHEN current_setting('transaction_read_only') = 'on' THEN NULL
  WHEN current_setting('transaction_isolation') = 'serializable' THEN NULL
  ELSE (
    SELECT j.job_id
    FROM {job} AS j
    WHERE j.state = 'running' AND j.lease_until <= (SELECT clock_timestamp())
    ORDER BY j.lease_until
    LIMIT 1
  ) IS NOT NULL OR (
    SELECT j.job_id
    FROM {job} AS j
    WHERE j.state = 'ready' AND j.attempts >= j.max_attempts
    ORDER BY j.job_id
    LIMIT 1
  ) IS NOT NULL
END
