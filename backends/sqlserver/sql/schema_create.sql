-- Makes the schema of the tables, where one was named and is not there.
-- params: none; {schema} is the bare name
-- rows: none
IF SCHEMA_ID(N'{schema}') IS NULL
  EXEC (N'CREATE SCHEMA [{schema}]')
