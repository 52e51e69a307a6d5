-- Tells like claim_probe.sql whether a claim would find anything, by the steps of claim_stepping.
-- params: $1 queue, $2 kinds or NULL, $3 $4 payload versions from and to
-- rows: one; NULL where only the claim can tell; rules C7 C11 C12
SELECT CASE
  WHEN current_setting('transaction_read_only') = 'on' THEN NULL
  WHEN current_setting('transaction_isolation') = 'serializable' THEN NULL
  ELSE (
    WITH RECURSIVE step (priority) AS (
      (SELECT r.priority
      FROM {job} AS r
      WHERE r.queue = $1
        AND r.state = 'ready'
        AND NOT EXISTS (SELECT FROM {job_queue} AS q WHERE q.queue = $1 AND q.paused_at IS NOT NULL)
      ORDER BY r.priority DESC
      LIMIT 1)
      UNION ALL
      SELECT (
        SELECT r.priority
        FROM {job} AS r
        WHERE r.queue = $1 AND r.state = 'ready' AND r.priority < s.priority
        ORDER BY r.priority DESC
        LIMIT 1
      )
      FROM step AS s
      WHERE s.priority IS NOT NULL
    )
    SELECT d.job_id
    FROM step AS s
    CROSS JOIN LATERAL (
      SELECT c.job_id
      FROM {job} AS c
      WHERE c.queue = $1
        AND c.state = 'ready'
        AND c.priority = s.priority
        AND c.run_at <= statement_timestamp()
        AND c.attempts < c.max_attempts
        AND ($2::TEXT[] IS NULL OR EXISTS (
          SELECT
          FROM unnest($2::TEXT[], $3::INTEGER[], $4::INTEGER[]) AS a (kind, lowest, highest)
          WHERE a.kind = c.kind AND c.payload_version BETWEEN a.lowest AND a.highest
        ))
      ORDER BY c.run_at, c.job_id
      LIMIT 1
    ) AS d
    LIMIT 1
  ) IS NOT NULL
END
