-- Reads the settings that the queue depends on, and the age of the oldest open transaction of this
-- database.
-- params: none
-- rows: one
SELECT current_setting('server_version_num')::INTEGER AS version,
  current_setting('default_transaction_isolation') AS isolation,
  current_setting('lc_messages') AS messages,
  current_setting('server_encoding') AS encoding,
  pg_is_in_recovery() OR current_setting('transaction_read_only')::BOOLEAN AS read_only,
  current_setting('autovacuum')::BOOLEAN AS autovacuum,
  (
    SELECT extract(EPOCH FROM max(clock_timestamp() - a.xact_start))::BIGINT
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
  ) AS oldest_transaction_s
