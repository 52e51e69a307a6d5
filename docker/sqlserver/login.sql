-- The login that the tests use: owner of its databases, and nothing else on the server.
-- sqlcmd variable: password
IF SUSER_ID(N'queue') IS NULL
  CREATE LOGIN queue WITH PASSWORD = N'$(password)', CHECK_POLICY = OFF;
