-- Reads the storage engine of the queue's tables, and how many CHECK constraints the job table has.
-- params: schema, or NULL for the connection's own; table; schema; table
-- rows: storage engine, number of CHECK constraints; none when there is no table
SELECT
    t.engine,
    (
        SELECT COUNT(*)
        FROM information_schema.table_constraints AS c
        WHERE c.constraint_schema = COALESCE(?, DATABASE())
            AND c.table_name = ?
            AND c.constraint_type = 'CHECK'
    )
FROM information_schema.tables AS t
WHERE t.table_schema = COALESCE(?, DATABASE())
    AND t.table_name = ?
