-- Tells listeners in other processes that jobs of a queue were committed.
-- params: $1 channel, $2 queue
-- rows: one without meaning
SELECT pg_notify($1, $2)::TEXT
