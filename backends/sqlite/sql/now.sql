-- Reads the database's clock: whole milliseconds, given as microseconds since 1970-01-01 00:00 UTC.
-- rows: one (now)
-- rules: C24. Rounded, because unixepoch('subsec') is floating point and may lie just below its millisecond.
SELECT CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000
