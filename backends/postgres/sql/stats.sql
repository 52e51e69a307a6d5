-- Counts jobs per queue. Reads every row of the queues asked for.
-- params: $1 queue or NULL
-- rows: (queue, due, scheduled, running, overdue, succeeded, dead, age of the oldest due job in us,
--   paused)
WITH instant AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), counted AS (
  SELECT j.queue,
    count(*) FILTER (WHERE j.state = 'ready' AND j.run_at <= i.now) AS due,
    count(*) FILTER (WHERE j.state = 'ready' AND j.run_at > i.now) AS scheduled,
    count(*) FILTER (WHERE j.state = 'running') AS running,
    count(*) FILTER (WHERE j.state = 'running' AND j.lease_until <= i.now) AS overdue,
    count(*) FILTER (WHERE j.state = 'succeeded') AS succeeded,
    count(*) FILTER (WHERE j.state = 'dead') AS dead,
    (extract(EPOCH FROM max(i.now - j.run_at) FILTER (WHERE j.state = 'ready' AND j.run_at <= i.now)) * 1000000)::BIGINT
      AS oldest_due_us
  FROM {job} AS j
  CROSS JOIN instant AS i
  WHERE $1::TEXT IS NULL OR j.queue = $1
  GROUP BY j.queue
), paused AS (
  SELECT q.queue
  FROM {job_queue} AS q
  WHERE q.paused_at IS NOT NULL AND ($1::TEXT IS NULL OR q.queue = $1)
)
SELECT COALESCE(c.queue, p.queue), COALESCE(c.due, 0), COALESCE(c.scheduled, 0), COALESCE(c.running, 0),
  COALESCE(c.overdue, 0), COALESCE(c.succeeded, 0), COALESCE(c.dead, 0), c.oldest_due_us, p.queue IS NOT NULL
FROM counted AS c
FULL JOIN paused AS p ON p.queue = c.queue
ORDER BY 1
