-- The tables of queue-table, version 1, for MySQL 8.4 and 9 and MariaDB 10.11 and later. Every
-- statement can be run again: there is no transaction around DDL, and a crash may come between any
-- two of them. {collation} compares every code point and every blank: utf8mb4_0900_bin on MySQL,
-- utf8mb4_nopad_bin on MariaDB. No column is a TIMESTAMP: its range ends in 2038, its value follows
-- the session's zone, and it may update itself.

CREATE TABLE IF NOT EXISTS {job} (
    job_id BIGINT NOT NULL AUTO_INCREMENT,
    queue VARCHAR(128) NOT NULL,
    kind VARCHAR(128) NOT NULL,
    payload LONGTEXT NOT NULL,
    payload_version SMALLINT UNSIGNED NOT NULL,
    state VARCHAR(16) NOT NULL,
    priority INT NOT NULL,
    run_at DATETIME(6) NOT NULL,
    attempts INT NOT NULL,
    max_attempts INT NOT NULL,
    worker_id VARCHAR(128) NULL,
    lease_until DATETIME(6) NULL,
    enqueued_at DATETIME(6) NOT NULL,
    claimed_at DATETIME(6) NULL,
    finished_at DATETIME(6) NULL,
    last_error TEXT NULL,
    -- What follows is for the queue's own statements; a business column's name cannot begin with an
    -- underscore. The key the job was enqueued with: replay needs it after another job has taken
    -- the key over.
    _dedup_key VARCHAR(256) NULL INVISIBLE,
    -- Finds the rows of a batch again, whatever ids they were given.
    _mark BIGINT NULL INVISIBLE,
    -- What the reaper looks for, in one index that holds nothing else: a lease's end, or a job with
    -- no attempt left.
    _reap_at DATETIME(6) GENERATED ALWAYS AS (
        CASE
            WHEN state = 'running' THEN lease_until
            WHEN state = 'ready' AND attempts >= max_attempts THEN enqueued_at
        END
    ) STORED INVISIBLE,
    PRIMARY KEY (job_id),
    KEY {name}_ready (state, queue, priority DESC, run_at, job_id),
    KEY {name}_lease (_reap_at, job_id),
    KEY {name}_retention (state, finished_at, job_id),
    CONSTRAINT {name}_state CHECK (state IN ('ready', 'running', 'succeeded', 'dead')),
    CONSTRAINT {name}_attempts CHECK (attempts >= 0 AND max_attempts >= 1),
    CONSTRAINT {name}_claim_shape CHECK (
        (state = 'running') = (worker_id IS NOT NULL) AND (state = 'running') = (lease_until IS NOT NULL)
    ),
    CONSTRAINT {name}_finish_shape CHECK ((state IN ('succeeded', 'dead')) = (finished_at IS NOT NULL)),
    CONSTRAINT {name}_payload CHECK (JSON_VALID(payload))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

CREATE TABLE IF NOT EXISTS {job_dedup} (
    queue VARCHAR(128) NOT NULL,
    dedup_key VARCHAR(256) NOT NULL,
    job_id BIGINT NOT NULL,
    scope VARCHAR(16) NOT NULL,
    PRIMARY KEY (queue, dedup_key),
    KEY {name}_dedup_job (job_id),
    CONSTRAINT {name}_dedup_scope CHECK (scope IN ('unfinished', 'row'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

CREATE TABLE IF NOT EXISTS {job_effect} (
    job_id BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    PRIMARY KEY (job_id, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

CREATE TABLE IF NOT EXISTS {job_queue} (
    queue VARCHAR(128) NOT NULL,
    paused_at DATETIME(6) NOT NULL,
    PRIMARY KEY (queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

CREATE TABLE IF NOT EXISTS {job_failure} (
    job_id BIGINT NOT NULL,
    attempt INT NOT NULL,
    worker_id VARCHAR(128) NOT NULL,
    at DATETIME(6) NOT NULL,
    cause VARCHAR(16) NOT NULL,
    error TEXT NULL,
    PRIMARY KEY (job_id, attempt),
    CONSTRAINT {name}_failure_cause CHECK (cause IN ('failed', 'reaped'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

CREATE TABLE IF NOT EXISTS {job_schema} (
    version INT NOT NULL,
    applied_at DATETIME(6) NOT NULL,
    PRIMARY KEY (version)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {collation};

-- Last: a version in the ledger means that everything above is there.
INSERT INTO {job_schema} (version, applied_at)
VALUES (1, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = {job_schema}.version;
