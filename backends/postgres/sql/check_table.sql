-- Reads which indexes of the job table can be used, and whether it is vacuumed by itself.
-- params: none
-- rows: one
SELECT ARRAY(
    SELECT i.relname::TEXT
    FROM pg_index AS x
    JOIN pg_class AS i ON i.oid = x.indexrelid
    WHERE x.indrelid = c.oid AND x.indisvalid AND x.indisready
  ) AS valid,
  NOT COALESCE(c.reloptions @> ARRAY['autovacuum_enabled=false'], FALSE) AS autovacuum
FROM pg_class AS c
WHERE c.oid = '{job}'::REGCLASS
