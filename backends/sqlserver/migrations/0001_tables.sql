-- Version 1: the job table, its sister tables and their indexes.
-- Instants are DATETIME2(6) in UTC. Names compare by code unit (BIN2); because every collation pads with blanks, no
-- stored name may end in one. Page locks are off, because READPAST skips row locks only. No index is filtered and no
-- column computed: both would make every writer's SET options matter.

CREATE TABLE {job} (
  job_id BIGINT IDENTITY(1, 1) NOT NULL,
  queue NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  kind NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  payload NVARCHAR(MAX) NOT NULL,
  payload_version INT NOT NULL,
  state NVARCHAR(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
  priority INT NOT NULL,
  run_at DATETIME2(6) NOT NULL,
  attempts INT NOT NULL,
  max_attempts INT NOT NULL,
  worker_id NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NULL,
  lease_until DATETIME2(6) NULL,
  enqueued_at DATETIME2(6) NOT NULL,
  claimed_at DATETIME2(6) NULL,
  finished_at DATETIME2(6) NULL,
  last_error NVARCHAR(MAX) NULL,
  CONSTRAINT {name}_pk PRIMARY KEY CLUSTERED (job_id) WITH (ALLOW_PAGE_LOCKS = OFF),
  CONSTRAINT {name}_state CHECK (state IN (N'ready', N'running', N'succeeded', N'dead')),
  CONSTRAINT {name}_attempts CHECK (attempts >= 0 AND max_attempts >= 1),
  CONSTRAINT {name}_version CHECK (payload_version BETWEEN 0 AND 65535),
  CONSTRAINT {name}_claim_shape CHECK (
    (state = N'running' AND worker_id IS NOT NULL AND lease_until IS NOT NULL)
    OR (state <> N'running' AND worker_id IS NULL AND lease_until IS NULL)
  ),
  CONSTRAINT {name}_finish_shape CHECK (
    (state IN (N'succeeded', N'dead') AND finished_at IS NOT NULL)
    OR (state NOT IN (N'succeeded', N'dead') AND finished_at IS NULL)
  ),
  CONSTRAINT {name}_names CHECK (queue NOT LIKE N'% ' AND kind NOT LIKE N'% ' AND worker_id NOT LIKE N'% '),
  -- Before 2022 ISJSON takes objects and arrays only. A text that is one value inside both of these is one value.
  CONSTRAINT {name}_payload CHECK (
    ISJSON(N'[' + payload + N']') = 1 AND ISJSON(N'{"value":' + payload + N'}') = 1
  )
);

-- Claims seek state, queue and priority, and then walk in order.
CREATE INDEX {name}_ready ON {job} (state, queue, priority DESC, run_at, job_id)
INCLUDE (attempts, max_attempts, kind, payload_version)
WITH (ALLOW_PAGE_LOCKS = OFF);

-- The reaper walks the deadlines of running jobs: no other job has one.
CREATE INDEX {name}_lease ON {job} (lease_until, job_id)
WITH (ALLOW_PAGE_LOCKS = OFF);

-- Retention walks one state at a time.
CREATE INDEX {name}_retention ON {job} (state, finished_at, job_id)
WITH (ALLOW_PAGE_LOCKS = OFF);

-- IGNORE_DUP_KEY: an INSERT of keys waits for whoever else inserts them, and then skips those that are there.
CREATE TABLE {job_dedup} (
  queue NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  dedup_key NVARCHAR(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
  job_id BIGINT NOT NULL,
  scope NVARCHAR(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
  CONSTRAINT {name}_dedup_pk PRIMARY KEY CLUSTERED (queue, dedup_key)
    WITH (ALLOW_PAGE_LOCKS = OFF, IGNORE_DUP_KEY = ON),
  CONSTRAINT {name}_dedup_scope CHECK (scope IN (N'unfinished', N'row')),
  CONSTRAINT {name}_dedup_names CHECK (queue NOT LIKE N'% ' AND dedup_key NOT LIKE N'% ')
);

CREATE INDEX {name}_dedup_job ON {job_dedup} (job_id)
WITH (ALLOW_PAGE_LOCKS = OFF);

-- The dedup key of a finished job that another job took over: replay must not bring back a second holder.
CREATE TABLE {job_dedup_past} (
  job_id BIGINT NOT NULL,
  dedup_key NVARCHAR(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
  scope NVARCHAR(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
  CONSTRAINT {name}_dedup_past_pk PRIMARY KEY CLUSTERED (job_id)
    WITH (ALLOW_PAGE_LOCKS = OFF, IGNORE_DUP_KEY = ON),
  CONSTRAINT {name}_dedup_past_scope CHECK (scope IN (N'unfinished', N'row'))
);

CREATE TABLE {job_effect} (
  job_id BIGINT NOT NULL,
  name NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  CONSTRAINT {name}_effect_pk PRIMARY KEY CLUSTERED (job_id, name) WITH (ALLOW_PAGE_LOCKS = OFF),
  CONSTRAINT {name}_effect_names CHECK (name NOT LIKE N'% ')
);

-- The queues that are paused.
CREATE TABLE {job_queue} (
  queue NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  paused_at DATETIME2(6) NOT NULL,
  CONSTRAINT {name}_queue_pk PRIMARY KEY CLUSTERED (queue) WITH (ALLOW_PAGE_LOCKS = OFF, IGNORE_DUP_KEY = ON),
  CONSTRAINT {name}_queue_names CHECK (queue NOT LIKE N'% ')
);

CREATE TABLE {job_failure} (
  job_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  worker_id NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
  at DATETIME2(6) NOT NULL,
  cause NVARCHAR(16) COLLATE Latin1_General_100_BIN2 NOT NULL,
  error NVARCHAR(MAX) NULL,
  CONSTRAINT {name}_failure_pk PRIMARY KEY CLUSTERED (job_id, attempt)
    WITH (ALLOW_PAGE_LOCKS = OFF, IGNORE_DUP_KEY = ON),
  CONSTRAINT {name}_failure_cause CHECK (cause IN (N'failed', N'reaped'))
);

CREATE TABLE {job_schema} (
  version INT NOT NULL,
  applied_at DATETIME2(6) NOT NULL,
  CONSTRAINT {name}_schema_pk PRIMARY KEY CLUSTERED (version)
);

INSERT INTO {job_schema} (version, applied_at)
VALUES (1, SYSUTCDATETIME());
