-- Makes this session the one that a deadlock ends. A purge locks jobs before dedup keys, a keyed enqueue keys before jobs.
-- params: none; run as plain text, because SET inside sp_executesql ends with it. session.sql sets it back
-- rows: none
-- rules: C22
SET DEADLOCK_PRIORITY LOW
