-- Tells whether the ledger is there, without the error that reading a missing table would be.
-- params: none
-- rows: one (found: 0 or 1)
SELECT CASE WHEN OBJECT_ID(N'{job_schema}', N'U') IS NULL THEN 0 ELSE 1 END AS found
