-- Records that a job has had an effect, the first time only.
-- params: job_id, name
-- rows: none; one inserted if it is the first time
-- rules: C17
INSERT INTO {job_effect} (job_id, name)
VALUES (:job_id, :name)
ON CONFLICT (job_id, name) DO NOTHING
