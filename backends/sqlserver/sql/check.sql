-- Looks at the server, the database, the session and the job table.
-- params: none
-- rows: subject, value (NULL where this server does not know the subject)
SELECT N'version' AS subject, CONVERT(NVARCHAR(256), SERVERPROPERTY(N'ProductVersion')) AS value
UNION ALL
SELECT N'engine_edition', CONVERT(NVARCHAR(256), SERVERPROPERTY(N'EngineEdition'))
UNION ALL
SELECT N'optimized_locking', CONVERT(NVARCHAR(256), DATABASEPROPERTYEX(DB_NAME(), N'IsOptimizedLockingOn'))
UNION ALL
SELECT N'compatibility_level', CONVERT(NVARCHAR(256), databases.compatibility_level)
FROM sys.databases AS databases
WHERE databases.database_id = DB_ID()
UNION ALL
SELECT N'read_committed_snapshot', CONVERT(NVARCHAR(256), databases.is_read_committed_snapshot_on)
FROM sys.databases AS databases
WHERE databases.database_id = DB_ID()
UNION ALL
SELECT N'read_only', CONVERT(NVARCHAR(256), databases.is_read_only)
FROM sys.databases AS databases
WHERE databases.database_id = DB_ID()
UNION ALL
SELECT N'isolation_level', CONVERT(NVARCHAR(256), sessions.transaction_isolation_level)
FROM sys.dm_exec_sessions AS sessions
WHERE sessions.session_id = @@SPID
UNION ALL
SELECT N'set_options', CONVERT(NVARCHAR(256), @@OPTIONS)
UNION ALL
SELECT N'trigger', CONVERT(NVARCHAR(256), triggers.name)
FROM sys.triggers AS triggers
WHERE triggers.parent_id = OBJECT_ID(N'{job}')
  AND triggers.is_disabled = 0
UNION ALL
SELECT N'page_locks', CONVERT(NVARCHAR(256), indexes.name)
FROM sys.indexes AS indexes
WHERE indexes.object_id = OBJECT_ID(N'{job}')
  AND indexes.allow_page_locks = 1
UNION ALL
SELECT N'row_locks_off', CONVERT(NVARCHAR(256), indexes.name)
FROM sys.indexes AS indexes
WHERE indexes.object_id = OBJECT_ID(N'{job}')
  AND indexes.allow_row_locks = 0
UNION ALL
SELECT N'filtered_index', CONVERT(NVARCHAR(256), indexes.name)
FROM sys.indexes AS indexes
WHERE indexes.object_id = OBJECT_ID(N'{job}')
  AND indexes.has_filter = 1
UNION ALL
SELECT N'index', CONVERT(NVARCHAR(256), indexes.name)
FROM sys.indexes AS indexes
WHERE indexes.object_id = OBJECT_ID(N'{job}')
  AND indexes.is_disabled = 0
UNION ALL
SELECT N'constraint_off', CONVERT(NVARCHAR(256), constraints.name)
FROM sys.check_constraints AS constraints
WHERE constraints.parent_object_id = OBJECT_ID(N'{job}')
  AND constraints.is_disabled = 1
UNION ALL
SELECT N'column', CONVERT(NVARCHAR(256), columns.name)
FROM sys.columns AS columns
WHERE columns.object_id = OBJECT_ID(N'{job}')
