//! Rows to values. A row written by other means must still be readable: text is read leniently,
//! numbers by their limits.

use std::time::Duration;

use queue_table_core::{
    ClaimRequest, ClaimedJob, Column, ColumnType, ColumnValue, DedupScope, Disposition,
    FailureCause, FailureRecord, JobId, JobRecord, Kind, Observed, QueueName, QueueStats, Reaped,
    Receipt, State, StoredPayload, Timestamp, WorkerId,
};
use rusqlite::types::{FromSqlError, Type, ValueRef};
use rusqlite::{Error, Result, Row};
use uuid::Uuid;

/// Columns of `claim_select` before the business columns.
const CLAIM_COLUMNS: usize = 10;

/// Columns of `get` and `list` before the business columns.
const RECORD_COLUMNS: usize = 16;

/// Decodes a row of `claim_select` as the job it becomes under the claim.
pub(crate) fn claimed(
    row: &Row<'_>,
    request: &ClaimRequest,
    now: i64,
    columns: &[Column],
) -> Result<ClaimedJob> {
    let attempt = row.get::<_, u32>(6)?.saturating_add(1);
    Ok(ClaimedJob {
        receipt: Receipt::new(job_id(row, 0)?, attempt, request.worker.clone()),
        queue: request.queue.clone(),
        kind: Kind::stored(&text(row, 1)?),
        payload: payload(row, 2)?,
        payload_version: row.get(3)?,
        priority: row.get(4)?,
        run_at: instant(row, 5)?,
        max_attempts: row.get(7)?,
        enqueued_at: instant(row, 8)?,
        claimed_at: Timestamp::from_micros(now),
        lease_until: Timestamp::from_micros(now.saturating_add(request.lease.as_micros())),
        last_error: text_or_null(row, 9)?,
        columns: business(row, CLAIM_COLUMNS, columns)?,
    })
}

/// Decodes a row of `get` or `list`.
pub(crate) fn record(row: &Row<'_>, columns: &[Column]) -> Result<JobRecord> {
    Ok(JobRecord {
        job_id: job_id(row, 0)?,
        queue: QueueName::stored(&text(row, 1)?),
        kind: Kind::stored(&text(row, 2)?),
        payload: payload(row, 3)?,
        payload_version: row.get(4)?,
        state: state(row, 5)?,
        priority: row.get(6)?,
        run_at: instant(row, 7)?,
        attempts: row.get(8)?,
        max_attempts: row.get(9)?,
        worker: text_or_null(row, 10)?.as_deref().map(WorkerId::stored),
        lease_until: instant_or_null(row, 11)?,
        enqueued_at: instant(row, 12)?,
        claimed_at: instant_or_null(row, 13)?,
        finished_at: instant_or_null(row, 14)?,
        last_error: text_or_null(row, 15)?,
        columns: business(row, RECORD_COLUMNS, columns)?,
    })
}

/// Decodes a row of `observe`.
pub(crate) fn observed(row: &Row<'_>) -> Result<Observed> {
    Ok(Observed {
        state: state(row, 0)?,
        attempts: row.get(1)?,
        worker: text_or_null(row, 2)?.as_deref().map(WorkerId::stored),
    })
}

/// Decodes a row of `reap_select`: the queue, and the claim whose lease ran out.
pub(crate) fn overdue(row: &Row<'_>) -> Result<(QueueName, Receipt)> {
    let worker = WorkerId::stored(&text(row, 3)?);
    let receipt = Receipt::new(job_id(row, 0)?, row.get(2)?, worker);
    Ok((QueueName::stored(&text(row, 1)?), receipt))
}

/// Decodes a row of `bury_select` as what becomes of it.
pub(crate) fn exhausted(row: &Row<'_>) -> Result<Reaped> {
    Ok(Reaped {
        job_id: job_id(row, 0)?,
        queue: QueueName::stored(&text(row, 1)?),
        attempt: row.get(2)?,
        worker: None,
        disposition: Disposition::Dead,
    })
}

/// Decodes a row of `failures`.
pub(crate) fn failure(row: &Row<'_>, job: JobId) -> Result<FailureRecord> {
    let cause = text(row, 3)?;
    Ok(FailureRecord {
        job_id: job,
        attempt: row.get(0)?,
        worker: WorkerId::stored(&text(row, 1)?),
        at: instant(row, 2)?,
        cause: FailureCause::parse(&cause).ok_or_else(|| unknown_word(3, &cause))?,
        error: text_or_null(row, 4)?,
    })
}

/// Decodes a row of `stats`.
pub(crate) fn stats(row: &Row<'_>) -> Result<QueueStats> {
    let oldest_due_us: Option<i64> = row.get(7)?;
    let positive = |micros| u64::try_from(micros).unwrap_or(0);
    Ok(QueueStats {
        queue: QueueName::stored(&text(row, 0)?),
        due: count(row, 1)?,
        scheduled: count(row, 2)?,
        running: count(row, 3)?,
        overdue: count(row, 4)?,
        succeeded: count(row, 5)?,
        dead: count(row, 6)?,
        oldest_due: oldest_due_us.map(|micros| Duration::from_micros(positive(micros))),
        paused: row.get(8)?,
    })
}

pub(crate) fn job_id(row: &Row<'_>, index: usize) -> Result<JobId> {
    row.get(index).map(JobId::new)
}

pub(crate) fn instant(row: &Row<'_>, index: usize) -> Result<Timestamp> {
    row.get(index).map(Timestamp::from_micros)
}

pub(crate) fn state(row: &Row<'_>, index: usize) -> Result<State> {
    let word = text(row, index)?;
    State::parse(&word).ok_or_else(|| unknown_word(index, &word))
}

pub(crate) fn scope(row: &Row<'_>, index: usize) -> Result<DedupScope> {
    let word = text(row, index)?;
    [DedupScope::WhileUnfinished, DedupScope::WhileRowExists]
        .into_iter()
        .find(|scope| scope.as_str() == word)
        .ok_or_else(|| unknown_word(index, &word))
}

pub(crate) fn text(row: &Row<'_>, index: usize) -> Result<String> {
    match row.get_ref(index)? {
        ValueRef::Text(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        other => Err(not_text(index, other.data_type())),
    }
}

pub(crate) fn text_or_null(row: &Row<'_>, index: usize) -> Result<Option<String>> {
    match row.get_ref(index)? {
        ValueRef::Null => Ok(None),
        _ => text(row, index).map(Some),
    }
}

fn instant_or_null(row: &Row<'_>, index: usize) -> Result<Option<Timestamp>> {
    let micros: Option<i64> = row.get(index)?;
    Ok(micros.map(Timestamp::from_micros))
}

fn count(row: &Row<'_>, index: usize) -> Result<u64> {
    let count: i64 = row.get(index)?;
    u64::try_from(count).map_err(|_| Error::IntegralValueOutOfRange(index, count))
}

/// The bytes as they are: whether they are JSON is decided when the job is run.
fn payload(row: &Row<'_>, index: usize) -> Result<StoredPayload> {
    match row.get_ref(index)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(StoredPayload::new(bytes)),
        other => Err(not_text(index, other.data_type())),
    }
}

fn business(row: &Row<'_>, first: usize, columns: &[Column]) -> Result<Vec<ColumnValue>> {
    let values = columns.iter().enumerate();
    values
        .map(|(position, column)| Ok(value(row.get_ref(first + position)?, column.column_type)))
        .collect()
}

/// A value of another type than the column's comes back as what it is: it must not stop the claim
/// of its neighbours.
fn value(stored: ValueRef<'_>, column_type: ColumnType) -> ColumnValue {
    match stored {
        ValueRef::Null => ColumnValue::Null,
        ValueRef::Integer(number) => ColumnValue::Integer(number),
        ValueRef::Real(number) => ColumnValue::Text(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            let uuid = match column_type {
                ColumnType::Uuid => Uuid::try_parse_ascii(bytes).ok(),
                ColumnType::Integer | ColumnType::Text => None,
            };
            uuid.map_or_else(
                || ColumnValue::Text(String::from_utf8_lossy(bytes).into_owned()),
                ColumnValue::Uuid,
            )
        }
    }
}

fn not_text(index: usize, found: Type) -> Error {
    Error::FromSqlConversionFailure(index, found, Box::new(FromSqlError::InvalidType))
}

fn unknown_word(index: usize, word: &str) -> Error {
    let reason = format!("`{word}` is no word of this column");
    Error::FromSqlConversionFailure(index, Type::Text, reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_business_value_comes_back_by_its_column_and_never_fails() {
        let text = "0190a000-0000-7000-8000-000000000001";
        let uuid = Uuid::parse_str(text).unwrap();
        let stored = ValueRef::Text(text.as_bytes());
        assert_eq!(value(stored, ColumnType::Uuid), ColumnValue::Uuid(uuid));
        assert_eq!(value(stored, ColumnType::Text), ColumnValue::from(text));
        assert_eq!(
            value(ValueRef::Text(b"no uuid"), ColumnType::Uuid),
            ColumnValue::from("no uuid")
        );
        assert_eq!(
            value(ValueRef::Text(b"\xff"), ColumnType::Text),
            ColumnValue::from("\u{fffd}")
        );
        assert_eq!(
            value(ValueRef::Integer(i64::MAX), ColumnType::Integer),
            ColumnValue::from(i64::MAX)
        );
        assert_eq!(
            value(ValueRef::Real(0.5), ColumnType::Integer),
            ColumnValue::from("0.5")
        );
        assert_eq!(value(ValueRef::Null, ColumnType::Uuid), ColumnValue::Null);
    }
}
