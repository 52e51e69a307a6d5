-- Lets one process at a time migrate these tables; the lock ends with the transaction.
-- params: none
-- rows: one (granted: 0 or more when it is)
DECLARE @granted INT;
EXEC @granted = sp_getapplock @Resource = N'queue-table {name}', @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 20000;
SELECT @granted AS granted
