-- Takes the lock of each dedup key, in the order given: inserts the key with a new job id, or finds
-- its holder's.
-- params: $1 queues, $2 keys, $3 scopes; sorted, each key once
-- rows: (the id offered, the id that the key names) in the order given; rules C5
WITH offered AS MATERIALIZED (
  SELECT nextval((SELECT pg_get_serial_sequence('{job}', 'job_id')::REGCLASS)) AS job_id, t.*
  FROM unnest($1::TEXT[], $2::TEXT[], $3::TEXT[]) WITH ORDINALITY AS t (queue, dedup_key, scope, place)
), named AS (
  INSERT INTO {job_dedup} AS d (queue, dedup_key, job_id, scope)
  SELECT o.queue, o.dedup_key, o.job_id, o.scope
  FROM offered AS o
  ORDER BY o.place
  -- The update changes nothing: it waits for a racing transaction and returns the row as that one
  -- left it.
  ON CONFLICT (queue, dedup_key) DO UPDATE SET scope = d.scope
  RETURNING d.queue, d.dedup_key, d.job_id
)
SELECT o.job_id, n.job_id
FROM offered AS o
JOIN named AS n ON n.queue = o.queue AND n.dedup_key = o.dedup_key
ORDER BY o.place
