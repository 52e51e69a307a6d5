-- Sets everything a session carries from one use to the next; run on connect and at each check-out of the pool.
-- params: none; {lock_timeout} is put in when the connection is opened, because SET takes no parameter
-- rows: none
-- rules: C27. READPAST fails at other levels (650); any error rolls the whole transaction back; counts are never sent.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET XACT_ABORT ON;
SET LOCK_TIMEOUT {lock_timeout};
SET NOCOUNT ON;
SET IMPLICIT_TRANSACTIONS OFF;
SET DEADLOCK_PRIORITY NORMAL;
SET ROWCOUNT 0;
SET QUOTED_IDENTIFIER ON;
SET ANSI_NULLS ON;
SET ANSI_PADDING ON;
SET ANSI_WARNINGS ON;
SET ARITHABORT ON;
SET CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF
