//! From the driver's rows to the contract's types.

use mysql::prelude::FromValue;
use mysql::{Row, Value};
use queue_table_core::{
    ColumnType, ColumnValue, Error, FailureCause, FailureRecord, JobId, JobRecord, Kind, QueueName,
    Result, State, StoredPayload, Table, Timestamp, WorkerId,
};
use time::PrimitiveDateTime;

use crate::error::undecodable;
use crate::sql::Statements;

/// One row of an operation, read from its first column on.
pub(crate) struct Reader {
    row: Row,
    next: usize,
    engine: &'static str,
    operation: &'static str,
}

impl Reader {
    pub(crate) fn new(row: Row, sql: &Statements, operation: &'static str) -> Self {
        Self {
            row,
            next: 0,
            engine: sql.engine,
            operation,
        }
    }

    /// The next column, of a type the driver converts to.
    pub(crate) fn take<T: FromValue>(&mut self, what: &'static str) -> Result<T> {
        let at = self.next;
        self.next += 1;
        match self.row.take_opt(at) {
            Some(Ok(value)) => Ok(value),
            _ => Err(self.unusable(what)),
        }
    }

    /// A count or number, which the table's checks keep from being negative.
    pub(crate) fn number(&mut self, what: &'static str) -> Result<u32> {
        let number: i64 = self.take(what)?;
        u32::try_from(number).map_err(|_| self.unusable(what))
    }

    pub(crate) fn job_id(&mut self) -> Result<JobId> {
        self.take("job_id").map(JobId::new)
    }

    pub(crate) fn state(&mut self) -> Result<State> {
        let word = self.text("state")?;
        State::parse(&word).ok_or_else(|| self.unusable("state"))
    }

    pub(crate) fn worker(&mut self) -> Result<Option<WorkerId>> {
        Ok(self
            .optional_text("worker_id")?
            .map(|text| WorkerId::stored(&text)))
    }

    /// Text that need not be UTF-8: a row written by other means must still be readable.
    pub(crate) fn text(&mut self, what: &'static str) -> Result<String> {
        let bytes: Vec<u8> = self.take(what)?;
        Ok(lossy(bytes))
    }

    pub(crate) fn optional_text(&mut self, what: &'static str) -> Result<Option<String>> {
        let bytes: Option<Vec<u8>> = self.take(what)?;
        Ok(bytes.map(lossy))
    }

    pub(crate) fn instant(&mut self, what: &'static str) -> Result<Timestamp> {
        let instant: PrimitiveDateTime = self.take(what)?;
        timestamp(instant).ok_or_else(|| self.unusable(what))
    }

    fn optional_instant(&mut self, what: &'static str) -> Result<Option<Timestamp>> {
        let instant: Option<PrimitiveDateTime> = self.take(what)?;
        match instant.map(timestamp) {
            Some(None) => Err(self.unusable(what)),
            Some(instant) => Ok(instant),
            None => Ok(None),
        }
    }

    /// The business columns, which come last.
    pub(crate) fn columns(&mut self, table: &Table) -> Result<Vec<ColumnValue>> {
        let mut values = Vec::with_capacity(table.columns().len());
        for column in table.columns() {
            values.push(self.column(column.column_type)?);
        }
        Ok(values)
    }

    fn column(&mut self, column_type: ColumnType) -> Result<ColumnValue> {
        const WHAT: &str = "business column of the type the queue was built with";
        let value: Value = self.take(WHAT)?;
        if value == Value::NULL {
            return Ok(ColumnValue::Null);
        }
        let read = match column_type {
            ColumnType::Integer => i64::from_value_opt(value).ok().map(ColumnValue::Integer),
            ColumnType::Text => String::from_value_opt(value).ok().map(ColumnValue::Text),
            ColumnType::Uuid => String::from_value_opt(value)
                .ok()
                .and_then(|text| uuid::Uuid::parse_str(&text).ok())
                .map(ColumnValue::Uuid),
        };
        read.ok_or_else(|| self.unusable(WHAT))
    }

    fn unusable(&self, what: &str) -> Error {
        undecodable(self.engine, self.operation, what)
    }
}

/// A row of `get.sql` or `list.sql`.
pub(crate) fn job_record(row: Row, sql: &Statements, operation: &'static str) -> Result<JobRecord> {
    let mut row = Reader::new(row, sql, operation);
    Ok(JobRecord {
        job_id: row.job_id()?,
        queue: QueueName::stored(&row.text("queue")?),
        kind: Kind::stored(&row.text("kind")?),
        payload: StoredPayload::new(row.take::<Vec<u8>>("payload")?),
        payload_version: row.take("payload_version")?,
        state: row.state()?,
        priority: row.take("priority")?,
        run_at: row.instant("run_at")?,
        attempts: row.number("attempts")?,
        max_attempts: row.number("max_attempts")?,
        worker: row.worker()?,
        lease_until: row.optional_instant("lease_until")?,
        enqueued_at: row.instant("enqueued_at")?,
        claimed_at: row.optional_instant("claimed_at")?,
        finished_at: row.optional_instant("finished_at")?,
        last_error: row.optional_text("last_error")?,
        columns: row.columns(&sql.table)?,
    })
}

/// A row of `failures.sql`.
pub(crate) fn failure_record(row: Row, sql: &Statements, job_id: JobId) -> Result<FailureRecord> {
    let mut row = Reader::new(row, sql, "failures");
    let attempt = row.number("attempt")?;
    let worker = WorkerId::stored(&row.text("worker_id")?);
    let at = row.instant("at")?;
    let cause = row.text("cause")?;
    Ok(FailureRecord {
        job_id,
        attempt,
        worker,
        at,
        cause: FailureCause::parse(&cause).ok_or_else(|| row.unusable("cause"))?,
        error: row.optional_text("error")?,
    })
}

/// An instant of the database's clock, and the same as the driver had it: to be sent back
/// unchanged.
#[derive(Debug, Clone)]
pub(crate) struct Now {
    pub(crate) value: Value,
    pub(crate) timestamp: Timestamp,
}

impl Now {
    /// Takes the next column of a row.
    pub(crate) fn take(row: &mut Reader) -> Result<Self> {
        let value: Value = row.take("clock")?;
        let instant = PrimitiveDateTime::from_value_opt(value.clone()).ok();
        let timestamp = instant
            .and_then(timestamp)
            .ok_or_else(|| row.unusable("clock"))?;
        Ok(Self { value, timestamp })
    }

    /// The instant so many microseconds later: what the database itself computes.
    pub(crate) fn plus(&self, micros: i64) -> Timestamp {
        Timestamp::from_micros(self.timestamp.as_micros().saturating_add(micros))
    }
}

/// A DATETIME(6) in UTC for a parameter.
pub(crate) fn datetime(instant: Timestamp) -> Option<Value> {
    let nanos = i128::from(instant.as_micros()) * 1_000;
    let utc = time::OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
    Some(PrimitiveDateTime::new(utc.date(), utc.time()).into())
}

fn timestamp(instant: PrimitiveDateTime) -> Option<Timestamp> {
    let micros = instant.assume_utc().unix_timestamp_nanos() / 1_000;
    i64::try_from(micros).ok().map(Timestamp::from_micros)
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_go_to_the_server_and_back_to_the_microsecond() {
        for micros in [0, 1, 1_796_126_400_000_001, 253_402_300_799_999_999] {
            let instant = Timestamp::from_micros(micros);
            let value = datetime(instant).unwrap();
            assert_eq!(
                timestamp(PrimitiveDateTime::from_value(value)),
                Some(instant)
            );
        }
    }
}
