//! Background jobs in an ordinary table of the application's own database, for synchronous
//! services.
//!
//! A service enqueues a job in the same transaction as the change that needs it. Workers claim jobs
//! under a lease in one short transaction, work outside any transaction, and renew, acknowledge or
//! fail *only the claim they hold*, judged by the database's clock after the row is locked. A
//! reaper brings back what crashed workers left.
