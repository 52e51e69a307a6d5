-- Version 1: the job table, its sister tables and its indexes.
-- All instants are whole microseconds since 1970-01-01 00:00 UTC. STRICT refuses an instant written as text.
-- AUTOINCREMENT, because the id of a deleted job must never name another job.

CREATE TABLE {job} (
  job_id INTEGER PRIMARY KEY AUTOINCREMENT,
  queue TEXT NOT NULL,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  payload_version INTEGER NOT NULL,
  state TEXT NOT NULL,
  priority INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  worker_id TEXT,
  lease_until INTEGER,
  enqueued_at INTEGER NOT NULL,
  claimed_at INTEGER,
  finished_at INTEGER,
  last_error TEXT,
  CONSTRAINT {name}_state CHECK (state IN ('ready', 'running', 'succeeded', 'dead')),
  CONSTRAINT {name}_attempts CHECK (attempts BETWEEN 0 AND 2147483647 AND max_attempts BETWEEN 1 AND 2147483647),
  CONSTRAINT {name}_claim_shape CHECK (
    (state = 'running') = (worker_id IS NOT NULL) AND (state = 'running') = (lease_until IS NOT NULL)
  ),
  CONSTRAINT {name}_finish_shape CHECK ((state IN ('succeeded', 'dead')) = (finished_at IS NOT NULL)),
  CONSTRAINT {name}_payload CHECK (json_valid(payload)),
  CONSTRAINT {name}_range CHECK (
    priority BETWEEN -2147483648 AND 2147483647 AND payload_version BETWEEN 0 AND 65535
  )
) STRICT;

-- Claims walk this one; job_id is its last column by itself, as in every index of SQLite.
CREATE INDEX "main"."{name}_ready" ON "{name}" (queue, priority DESC, run_at) WHERE state = 'ready';

-- The reaper finds overdue claims, and ready jobs without attempts, which are nearly always none.
CREATE INDEX "main"."{name}_lease" ON "{name}" (lease_until) WHERE state = 'running';
CREATE INDEX "main"."{name}_exhausted" ON "{name}" (job_id) WHERE state = 'ready' AND attempts >= max_attempts;

-- Retention walks one state at a time. Finished jobs are exactly those with finished_at.
CREATE INDEX "main"."{name}_retention" ON "{name}" (state, finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE {job_dedup} (
  queue TEXT NOT NULL,
  dedup_key TEXT NOT NULL,
  job_id INTEGER NOT NULL,
  scope TEXT NOT NULL CONSTRAINT {name}_dedup_scope CHECK (scope IN ('unfinished', 'row')),
  PRIMARY KEY (queue, dedup_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX "main"."{name}_dedup_job" ON "{name}_dedup" (job_id);

-- The dedup key of a finished job that another job took over: replay must not bring back a second holder.
CREATE TABLE {job_dedup_past} (
  job_id INTEGER PRIMARY KEY,
  dedup_key TEXT NOT NULL,
  scope TEXT NOT NULL CONSTRAINT {name}_dedup_past_scope CHECK (scope IN ('unfinished', 'row'))
) STRICT;

CREATE TABLE {job_effect} (
  job_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (job_id, name)
) STRICT, WITHOUT ROWID;

-- The queues that are paused.
CREATE TABLE {job_queue} (
  queue TEXT NOT NULL PRIMARY KEY,
  paused_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE {job_failure} (
  job_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  worker_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  cause TEXT NOT NULL CONSTRAINT {name}_failure_cause CHECK (cause IN ('failed', 'reaped')),
  error TEXT,
  PRIMARY KEY (job_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE {job_schema} (
  version INTEGER PRIMARY KEY,
  applied_at INTEGER NOT NULL
) STRICT;

INSERT INTO {job_schema} (version, applied_at)
VALUES (1, CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000);
