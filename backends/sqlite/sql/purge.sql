-- Deletes one finished job that purge_select found, unless it was replayed since.
-- params: job_id, finished_at
-- rows: none; one deleted, unless a constraint of the user's keeps it
-- rules: C22
DELETE FROM {job}
WHERE job_id = :job_id
  AND finished_at <= :finished_at
