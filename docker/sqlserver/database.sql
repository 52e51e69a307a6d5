-- One test database. Its collation ignores case and accents, so that names are compared exactly by the tables' own.
-- sqlcmd variables: name, snapshot (ON or OFF), optimized (ON or OFF; SQL Server 2025)
IF DB_ID(N'$(name)') IS NULL
  CREATE DATABASE $(name) COLLATE Latin1_General_100_CI_AI;
GO
ALTER AUTHORIZATION ON DATABASE::$(name) TO queue;
ALTER DATABASE $(name) SET READ_COMMITTED_SNAPSHOT $(snapshot) WITH ROLLBACK IMMEDIATE;
-- SNAPSHOT is allowed, so that a test can show what a claim says there.
ALTER DATABASE $(name) SET ALLOW_SNAPSHOT_ISOLATION ON;
GO
-- Optimized locking stands on accelerated database recovery.
ALTER DATABASE $(name) SET ACCELERATED_DATABASE_RECOVERY = ON;
GO
ALTER DATABASE $(name) SET OPTIMIZED_LOCKING = $(optimized);
GO
