-- Reads the collations of the job table's text columns.
-- params: schema, or NULL for the connection's own; table
-- rows: column, collation
SELECT c.column_name, c.collation_name
FROM information_schema.columns AS c
WHERE c.table_schema = COALESCE(?, DATABASE())
    AND c.table_name = ?
    AND c.collation_name IS NOT NULL
