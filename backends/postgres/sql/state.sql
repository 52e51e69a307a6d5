-- Reads the state of a job, without a lock.
-- params: $1 job_id
-- rows: none or one (state)
SELECT j.state
FROM {job} AS j
WHERE j.job_id = $1
