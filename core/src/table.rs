//! Which tables a queue uses, and the user's own columns on the job table.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::invalid::{Invalid, Problem};
use crate::name::{ColumnName, SchemaName, TableName};

/// Most business columns of one table.
pub const COLUMNS_MAX: usize = 16;

/// Columns of the job table that a business column cannot be named like.
const OWN_COLUMNS: [&str; 16] = [
    "job_id",
    "queue",
    "kind",
    "payload",
    "payload_version",
    "state",
    "priority",
    "run_at",
    "attempts",
    "max_attempts",
    "worker_id",
    "lease_until",
    "enqueued_at",
    "claimed_at",
    "finished_at",
    "last_error",
];

/// The tables of one queue system: the job table's name, its schema, and its business columns.
///
/// The sister tables are named after it: `job_dedup`, `job_effect`, `job_queue`, `job_failure`,
/// `job_schema`. Several such sets live side by side in one database, each with names of its own.
///
/// ```
/// use queue_table_core::{ColumnType, Table};
///
/// let table = Table::named("billing_job")?.with_column("order_id", ColumnType::Integer)?;
/// assert_eq!(table.sister("dedup"), "billing_job_dedup");
/// # Ok::<(), queue_table_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    schema: Option<SchemaName>,
    name: TableName,
    columns: Vec<Column>,
}

/// A column of the user's own on the job table, added by the user's own migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The column's name.
    pub name: ColumnName,
    /// The type of its values.
    pub column_type: ColumnType,
}

/// The type of a business column's values; each may be NULL where the column allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// A whole number of up to 64 bits.
    Integer,
    /// Text.
    Text,
    /// A UUID, in the engine's own type where it has one, else as 36 characters of text.
    Uuid,
}

/// A value of a business column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnValue {
    /// No value.
    Null,
    /// For a column of [`ColumnType::Integer`].
    Integer(i64),
    /// For a column of [`ColumnType::Text`]; without NUL.
    Text(String),
    /// For a column of [`ColumnType::Uuid`].
    Uuid(Uuid),
}

impl ColumnValue {
    /// The type of the value; `None` for NULL, which fits every column.
    #[must_use]
    pub fn column_type(&self) -> Option<ColumnType> {
        match self {
            Self::Null => None,
            Self::Integer(_) => Some(ColumnType::Integer),
            Self::Text(_) => Some(ColumnType::Text),
            Self::Uuid(_) => Some(ColumnType::Uuid),
        }
    }
}

impl From<i64> for ColumnValue {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<&str> for ColumnValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for ColumnValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Uuid> for ColumnValue {
    fn from(value: Uuid) -> Self {
        Self::Uuid(value)
    }
}

/// The table `job`, in the connection's own schema, without business columns.
impl Default for Table {
    fn default() -> Self {
        Self {
            schema: None,
            name: TableName::stored("job"),
            columns: Vec::new(),
        }
    }
}

impl Table {
    /// A job table of this name.
    ///
    /// # Errors
    /// [`Invalid`] when the name is no valid table name.
    pub fn named(name: &str) -> Result<Self, Invalid> {
        Ok(Self {
            name: TableName::new(name)?,
            ..Self::default()
        })
    }

    /// The same tables in another schema. Refused by engines that have none.
    ///
    /// # Errors
    /// [`Invalid`] when the name is no valid schema name.
    pub fn in_schema(self, schema: &str) -> Result<Self, Invalid> {
        Ok(Self {
            schema: Some(SchemaName::new(schema)?),
            ..self
        })
    }

    /// Adds a business column: enqueue fills it, claim returns it. The user's own migration creates
    /// it.
    ///
    /// # Errors
    /// [`Invalid`] when the name is no valid column name, is one of the queue's own or was added
    /// before, or there are more than 16.
    pub fn with_column(mut self, name: &str, column_type: ColumnType) -> Result<Self, Invalid> {
        let name = ColumnName::new(name)?;
        let taken = OWN_COLUMNS.contains(&name.as_str())
            || self.columns.iter().any(|column| column.name == name);
        if taken {
            let reason = "is taken by a column of the queue or was added before".to_owned();
            return Err(Invalid::new(
                "business column",
                Problem::Column {
                    column: name.into(),
                    reason,
                },
            ));
        }
        self.columns.push(Column { name, column_type });
        crate::lease::check_count("business columns", self.columns.len(), COLUMNS_MAX)?;
        Ok(self)
    }

    /// The schema, where one was given.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_ref().map(SchemaName::as_str)
    }

    /// The job table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The name of a sister table, such as `job_dedup` for `dedup`.
    #[must_use]
    pub fn sister(&self, suffix: &str) -> String {
        format!("{}_{suffix}", self.name)
    }

    /// The business columns, in the order they were added.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// A job's values in the order of the columns, NULL where the job has none. For backends.
    ///
    /// # Errors
    /// [`Invalid`] when the job has a value for a column that the table was not built with, of
    /// another type, or a text with NUL.
    pub fn arrange(
        &self,
        given: &[(ColumnName, ColumnValue)],
    ) -> Result<Vec<ColumnValue>, Invalid> {
        for (name, value) in given {
            self.check_value(name, value)?;
        }
        let value_of = |column: &Column| {
            let found = given.iter().rev().find(|(name, _)| name == &column.name);
            found.map_or(ColumnValue::Null, |(_, value)| value.clone())
        };
        Ok(self.columns.iter().map(value_of).collect())
    }

    fn check_value(&self, name: &ColumnName, value: &ColumnValue) -> Result<(), Invalid> {
        let refuse = |reason: String| {
            Err(Invalid::new(
                "business column",
                Problem::Column {
                    column: name.to_string(),
                    reason,
                },
            ))
        };
        let Some(column) = self.columns.iter().find(|column| &column.name == name) else {
            let known: Vec<_> = self
                .columns
                .iter()
                .map(|column| column.name.as_str())
                .collect();
            return refuse(format!("the queue was built with [{}]", known.join(", ")));
        };
        if value
            .column_type()
            .is_some_and(|given| given != column.column_type)
        {
            return refuse(format!(
                "the value is not of the column's type {:?}",
                column.column_type
            ));
        }
        match value {
            ColumnValue::Text(text) if text.contains('\0') => {
                refuse("the text holds NUL".to_owned())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::default()
            .with_column("order_id", ColumnType::Integer)
            .and_then(|table| table.with_column("tenant", ColumnType::Text))
            .unwrap()
    }

    fn name(text: &str) -> ColumnName {
        ColumnName::new(text).unwrap()
    }

    #[test]
    fn values_come_in_the_tables_order_with_null_for_the_missing() {
        let given = [(name("tenant"), ColumnValue::from("t1"))];
        assert_eq!(
            table().arrange(&given).unwrap(),
            [ColumnValue::Null, ColumnValue::from("t1")]
        );
    }

    #[test]
    fn an_unknown_column_is_rejected_with_the_known_ones() {
        let refused = table()
            .arrange(&[(name("custmer"), ColumnValue::Null)])
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "business column `custmer`: the queue was built with [order_id, tenant]"
        );
    }

    #[test]
    fn a_value_of_another_type_or_with_nul_is_rejected() {
        assert!(
            table()
                .arrange(&[(name("order_id"), ColumnValue::from("7"))])
                .is_err()
        );
        assert!(
            table()
                .arrange(&[(name("tenant"), ColumnValue::from("a\0"))])
                .is_err()
        );
    }

    #[test]
    fn a_column_named_like_one_of_the_queues_own_is_rejected() {
        assert!(
            Table::default()
                .with_column("state", ColumnType::Text)
                .is_err()
        );
        assert!(table().with_column("tenant", ColumnType::Text).is_err());
    }
}
