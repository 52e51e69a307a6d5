-- Records that a job has had an effect, the first time only. The job's row is locked already.
-- params: @P1 BIGINT job_id; @P2 NVARCHAR(128) name
-- rows: one (job_id) if it is the first time
-- rules: C17
INSERT INTO {job_effect} (job_id, name)
OUTPUT inserted.job_id
SELECT @P1, @P2
WHERE NOT EXISTS (SELECT 1 FROM {job_effect} AS effect WHERE effect.job_id = @P1 AND effect.name = @P2)
