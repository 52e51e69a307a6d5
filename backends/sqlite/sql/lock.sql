-- Takes the file's one writer lock in a caller's transaction, so that the clock is read after any wait.
-- rows: none; nothing is changed
-- rules: C14, C24. Even without a row to change, an UPDATE starts by taking the lock.
UPDATE {job}
SET state = state
WHERE FALSE
