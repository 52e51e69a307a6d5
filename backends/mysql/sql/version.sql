-- Reads the ledger: the tables' version.
-- rows: version; NULL when a migration was begun and not finished
SELECT MAX(s.version)
FROM {job_schema} AS s
