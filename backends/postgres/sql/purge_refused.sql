-- Deletes one job; where a trigger's RAISE EXCEPTION (P0001) refuses that, fails with 23001 as a
-- constraint would. diesel does not tell P0001 from an error of the server.
-- params: none, DO takes none; {job_id} is put in as a number
-- rows: none; rules C22
DO $refused$
BEGIN
  DELETE FROM {job} WHERE job_id = {job_id};
EXCEPTION
  WHEN raise_exception THEN
    RAISE restrict_violation;
END
$refused$
