-- Stores jobs. An INSERT from an ordered SELECT computes the identities in that order: the n-th id is the n-th job's.
-- params: @P1 NVARCHAR(MAX) JSON array of [ordinal, queue, kind, payload, version, priority, delay, max_attempts, columns]
-- rows: job_id, in no promised order
-- rules: C1, C4, C6, C24
DECLARE @now DATETIME2(6) = SYSUTCDATETIME();
INSERT INTO {job} (
  queue, kind, payload, payload_version, state, priority, run_at, attempts, max_attempts, enqueued_at{columns}
)
OUTPUT inserted.job_id
SELECT given.queue, given.kind, given.payload, given.payload_version, N'ready', given.priority,
  DATEADD(MICROSECOND, given.delay % 60000000, DATEADD(MINUTE, given.delay / 60000000, @now)),
  0, given.max_attempts, @now{given_columns}
FROM OPENJSON(@P1) WITH (
  ordinal INT '$[0]',
  queue NVARCHAR(128) '$[1]',
  kind NVARCHAR(128) '$[2]',
  payload NVARCHAR(MAX) '$[3]',
  payload_version INT '$[4]',
  priority INT '$[5]',
  delay BIGINT '$[6]',
  max_attempts INT '$[7]'{column_types}
) AS given
ORDER BY given.ordinal
