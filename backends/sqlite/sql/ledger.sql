-- Reads the version of the tables.
-- rows: one (version; NULL when no migration is recorded)
SELECT MAX(version)
FROM {job_schema}
