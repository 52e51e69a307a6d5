//! From the driver's rows to the queue's types.

use queue_table_core::{
    ClaimedJob, Column, ColumnType, ColumnValue, Disposition, FailureCause, FailureRecord, JobId,
    JobRecord, Kind, Observed, QueueName, QueueStats, Receipt, Result, State, StoredPayload, Table,
    Timestamp, WorkerId,
};
use tiberius::{ColumnData, Row, Uuid};

use crate::error::unexpected;

/// One row, read by column name.
pub(crate) struct Cells<'a> {
    row: &'a Row,
    operation: &'static str,
}

impl<'a> Cells<'a> {
    pub(crate) fn of(row: &'a Row, operation: &'static str) -> Self {
        Self { row, operation }
    }

    fn data(&self, name: &str) -> Result<&'a ColumnData<'static>> {
        let missing = |_| self.wrong(name, "is missing");
        self.row.get_column_data(name).map_err(missing)
    }

    fn wrong(&self, name: &str, what: &str) -> queue_table_core::Error {
        unexpected(self.operation, format!("column {name} {what}"))
    }

    /// A whole number, of whatever width the server sends.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>> {
        integer(self.data(name)?).ok_or_else(|| self.wrong(name, "is no whole number"))
    }

    fn needed<T>(&self, name: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.wrong(name, "is NULL"))
    }

    /// A whole number that is there and fits.
    pub(crate) fn number<T: TryFrom<i64>>(&self, name: &str) -> Result<T> {
        let value = self.needed(name, self.integer(name)?)?;
        T::try_from(value).map_err(|_| self.wrong(name, "is out of range"))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>> {
        match self.data(name)? {
            ColumnData::String(text) => Ok(text.as_deref()),
            _ => Err(self.wrong(name, "is no text")),
        }
    }

    pub(crate) fn string(&self, name: &str) -> Result<&'a str> {
        self.needed(name, self.text(name)?)
    }

    pub(crate) fn job_id(&self) -> Result<JobId> {
        self.number("job_id").map(JobId::new)
    }

    fn instant(&self, name: &str) -> Result<Option<Timestamp>> {
        Ok(self.integer(name)?.map(Timestamp::from_micros))
    }

    fn timestamp(&self, name: &str) -> Result<Timestamp> {
        self.needed(name, self.instant(name)?)
    }

    fn state(&self) -> Result<State> {
        let parsed = State::parse(self.string("state")?);
        parsed.ok_or_else(|| self.wrong("state", "is no state"))
    }

    fn columns(&self, table: &Table) -> Result<Vec<ColumnValue>> {
        let columns = table.columns().iter();
        columns.map(|column| self.column(column)).collect()
    }

    fn column(&self, column: &Column) -> Result<ColumnValue> {
        let name = column.name.as_str();
        let data = self.data(name)?;
        let value = match (column.column_type, data) {
            (ColumnType::Integer, data) => {
                integer(data).map(|value| value.map(ColumnValue::Integer))
            }
            (ColumnType::Text, ColumnData::String(text)) => Some(
                text.as_deref()
                    .map(|text| ColumnValue::Text(text.to_owned())),
            ),
            (ColumnType::Uuid, ColumnData::Guid(uuid)) => Some(uuid.map(ColumnValue::Uuid)),
            (ColumnType::Uuid, ColumnData::String(text)) => uuid_of(text.as_deref()),
            _ => None,
        };
        let value =
            value.ok_or_else(|| self.wrong(name, "is not of the type it was declared with"))?;
        Ok(value.unwrap_or(ColumnValue::Null))
    }
}

#[allow(
    clippy::option_option,
    reason = "outer: of the type at all; inner: not NULL"
)]
fn integer(data: &ColumnData<'_>) -> Option<Option<i64>> {
    match data {
        ColumnData::U8(value) => Some(value.map(i64::from)),
        ColumnData::I16(value) => Some(value.map(i64::from)),
        ColumnData::I32(value) => Some(value.map(i64::from)),
        ColumnData::I64(value) => Some(*value),
        _ => None,
    }
}

#[allow(clippy::option_option, reason = "as for integer")]
fn uuid_of(text: Option<&str>) -> Option<Option<ColumnValue>> {
    match text {
        None => Some(None),
        Some(text) => Uuid::parse_str(text)
            .ok()
            .map(|uuid| Some(ColumnValue::Uuid(uuid))),
    }
}

pub(crate) fn claimed_job(row: &Cells<'_>, table: &Table) -> Result<ClaimedJob> {
    let worker = WorkerId::stored(row.string("worker_id")?);
    Ok(ClaimedJob {
        receipt: Receipt::new(row.job_id()?, row.number("attempts")?, worker),
        queue: QueueName::stored(row.string("queue")?),
        kind: Kind::stored(row.string("kind")?),
        payload: StoredPayload::new(row.string("payload")?),
        payload_version: row.number("payload_version")?,
        priority: row.number("priority")?,
        run_at: row.timestamp("run_at")?,
        max_attempts: row.number("max_attempts")?,
        enqueued_at: row.timestamp("enqueued_at")?,
        claimed_at: row.timestamp("claimed_at")?,
        lease_until: row.timestamp("lease_until")?,
        last_error: row.text("last_error")?.map(str::to_owned),
        columns: row.columns(table)?,
    })
}

pub(crate) fn job_record(row: &Cells<'_>, table: &Table) -> Result<JobRecord> {
    Ok(JobRecord {
        job_id: row.job_id()?,
        queue: QueueName::stored(row.string("queue")?),
        kind: Kind::stored(row.string("kind")?),
        payload: StoredPayload::new(row.string("payload")?),
        payload_version: row.number("payload_version")?,
        state: row.state()?,
        priority: row.number("priority")?,
        run_at: row.timestamp("run_at")?,
        attempts: row.number("attempts")?,
        max_attempts: row.number("max_attempts")?,
        worker: row.text("worker_id")?.map(WorkerId::stored),
        lease_until: row.instant("lease_until")?,
        enqueued_at: row.timestamp("enqueued_at")?,
        claimed_at: row.instant("claimed_at")?,
        finished_at: row.instant("finished_at")?,
        last_error: row.text("last_error")?.map(str::to_owned),
        columns: row.columns(table)?,
    })
}

pub(crate) fn observed(row: &Cells<'_>) -> Result<(JobId, Observed)> {
    let observed = Observed {
        state: row.state()?,
        attempts: row.number("attempts")?,
        worker: row.text("worker_id")?.map(WorkerId::stored),
    };
    Ok((row.job_id()?, observed))
}

pub(crate) fn disposition(row: &Cells<'_>) -> Result<Disposition> {
    match row.state()? {
        State::Ready => Ok(Disposition::Ready {
            run_at: row.timestamp("run_at")?,
        }),
        State::Dead => Ok(Disposition::Dead),
        other => Err(row.wrong("state", &format!("is {other}"))),
    }
}

pub(crate) fn failure(row: &Cells<'_>, job_id: JobId) -> Result<FailureRecord> {
    let cause = FailureCause::parse(row.string("cause")?);
    Ok(FailureRecord {
        job_id,
        attempt: row.number("attempt")?,
        worker: WorkerId::stored(row.string("worker_id")?),
        at: row.timestamp("at")?,
        cause: cause.ok_or_else(|| row.wrong("cause", "is no cause"))?,
        error: row.text("error")?.map(str::to_owned),
    })
}

pub(crate) fn queue_stats(row: &Cells<'_>) -> Result<QueueStats> {
    let oldest = row.integer("oldest_due")?;
    Ok(QueueStats {
        queue: QueueName::stored(row.string("queue")?),
        due: row.number("due")?,
        scheduled: row.number("scheduled")?,
        running: row.number("running")?,
        overdue: row.number("overdue")?,
        succeeded: row.number("succeeded")?,
        dead: row.number("dead")?,
        oldest_due: oldest
            .map(|micros| std::time::Duration::from_micros(u64::try_from(micros).unwrap_or(0))),
        paused: row.number::<i64>("paused")? == 1,
    })
}
