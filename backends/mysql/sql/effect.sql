-- Records one effect of a job whose claim judge found to hold. Error 1062 says that it was recorded
-- before.
-- params: job id; name
-- rules: C17
INSERT INTO {job_effect} (job_id, name)
VALUES (?, ?)
