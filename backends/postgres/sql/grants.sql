-- Three roles for one table set, without login: grant them to the roles that your services log in
-- with.
-- {name}_producer enqueues; {name}_worker claims, renews, finishes and reaps; {name}_operator does
-- everything but DDL. Run it after the migration, as the tables' owner with the right to create
-- roles; running it again changes nothing. Business columns need no grant of their own: rights on
-- the job table cover them.

DO $roles$
DECLARE
  role_name TEXT;
BEGIN
  FOREACH role_name IN ARRAY ARRAY['{name}_producer', '{name}_worker', '{name}_operator'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
    END IF;
    EXECUTE format(
      'GRANT USAGE ON SCHEMA %s TO %I',
      (SELECT c.relnamespace::REGNAMESPACE FROM pg_class AS c WHERE c.oid = '{job}'::REGCLASS),
      role_name
    );
    -- Ids are drawn before the row is stored, so that a batch knows which id is whose.
    EXECUTE format('GRANT USAGE ON SEQUENCE %s TO %I', pg_get_serial_sequence('{job}', 'job_id'), role_name);
  END LOOP;
END
$roles$;

GRANT SELECT ON {job_schema} TO {name}_producer, {name}_worker, {name}_operator;

-- A producer reads of other jobs only whether a dedup key's holder is finished, never a payload.
GRANT INSERT, SELECT (job_id, state) ON {job} TO {name}_producer;
GRANT SELECT, INSERT, UPDATE ON {job_dedup}, {job_dedup_past} TO {name}_producer;

GRANT SELECT, UPDATE ON {job} TO {name}_worker;
GRANT SELECT ON {job_queue} TO {name}_worker;
GRANT SELECT, INSERT ON {job_failure}, {job_effect} TO {name}_worker;

GRANT SELECT, INSERT, UPDATE, DELETE ON {job}, {job_dedup}, {job_dedup_past}, {job_effect}, {job_queue}, {job_failure}
  TO {name}_operator;
