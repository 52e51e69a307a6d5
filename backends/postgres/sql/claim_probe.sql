-- Tells outside a transaction whether a claim would find anything; as claim.sql looks for it.
-- params: $1 queue, $2 kinds or NULL, $3 $4 payload versions from and to
-- rows: one; NULL where only the claim can tell: on a server without writes, or at SERIALIZABLE,
-- where a read may fail and make others fail; rules C7 C11 C12
SELECT CASE
  WHEN current_setting('transaction_read_only') = 'on' THEN NULL
  WHEN current_setting('transaction_isolation') = 'serializable' THEN NULL
  ELSE (
    -- Ordered like a claim: without it a plan may read the finished rows first.
    SELECT c.job_id
    FROM {job} AS c
    WHERE c.queue = $1
      AND c.state = 'ready'
      AND c.run_at <= statement_timestamp()
      AND c.attempts < c.max_attempts
      AND ($2::TEXT[] IS NULL OR EXISTS (
        SELECT
        FROM unnest($2::TEXT[], $3::INTEGER[], $4::INTEGER[]) AS a (kind, lowest, highest)
        WHERE a.kind = c.kind AND c.payload_version BETWEEN a.lowest AND a.highest
      ))
      AND NOT EXISTS (SELECT FROM {job_queue} AS q WHERE q.queue = $1 AND q.paused_at IS NOT NULL)
    ORDER BY c.priority DESC, c.run_at, c.job_id
    LIMIT 1
  ) IS NOT NULL
END
