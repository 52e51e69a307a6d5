-- Reads the columns of the job table's indexes, in order.
-- params: schema, or NULL for the connection's own; table
-- rows: index, its columns, each with its direction (A or D)
SELECT
    s.index_name,
    GROUP_CONCAT(CONCAT(s.column_name, ' ', s.collation) ORDER BY s.seq_in_index SEPARATOR ', ')
FROM information_schema.statistics AS s
WHERE s.table_schema = COALESCE(?, DATABASE())
    AND s.table_name = ?
GROUP BY s.index_name
