//! Rows as core's types.

use queue_table_core::{
    ClaimedJob, Disposition, JobRecord, Kind, QueueName, Reaped, Receipt, StoredPayload, WorkerId,
};

use crate::fixture::Row;

/// A row that was claimed just now.
pub(super) fn claimed(row: &Row) -> ClaimedJob {
    let worker = row.worker_id.as_deref().unwrap_or_default();
    ClaimedJob {
        receipt: Receipt::new(row.job_id, row.attempts, WorkerId::stored(worker)),
        queue: QueueName::stored(&row.queue),
        kind: Kind::stored(&row.kind),
        payload: StoredPayload::new(row.payload.clone()),
        payload_version: row.payload_version,
        priority: row.priority,
        run_at: row.run_at,
        max_attempts: row.max_attempts,
        enqueued_at: row.enqueued_at,
        claimed_at: row.claimed_at.unwrap_or(row.enqueued_at),
        lease_until: row.lease_until.unwrap_or(row.enqueued_at),
        last_error: row.last_error.clone(),
        columns: row.columns.clone(),
    }
}

pub(super) fn record(row: &Row) -> JobRecord {
    JobRecord {
        job_id: row.job_id,
        queue: QueueName::stored(&row.queue),
        kind: Kind::stored(&row.kind),
        payload: StoredPayload::new(row.payload.clone()),
        payload_version: row.payload_version,
        state: row.state,
        priority: row.priority,
        run_at: row.run_at,
        attempts: row.attempts,
        max_attempts: row.max_attempts,
        worker: row.worker_id.as_deref().map(WorkerId::stored),
        lease_until: row.lease_until,
        enqueued_at: row.enqueued_at,
        claimed_at: row.claimed_at,
        finished_at: row.finished_at,
        last_error: row.last_error.clone(),
        columns: row.columns.clone(),
    }
}

/// A row that the reaper is about to move.
pub(super) fn reaped(row: &Row, disposition: Disposition) -> Reaped {
    Reaped {
        job_id: row.job_id,
        queue: QueueName::stored(&row.queue),
        attempt: row.attempts,
        worker: row.worker_id.as_deref().map(WorkerId::stored),
        disposition,
    }
}
