-- Reads the version of the tables.
-- params: none
-- rows: one (version; NULL when no migration is recorded)
SELECT MAX(version) AS version
FROM {job_schema}
