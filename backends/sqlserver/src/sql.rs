//! The statements of `sql/` with the table's names put in, made once when the queue is built.

use queue_table_core::{ColumnType, Table};

/// The hints of every read that takes rows to change them: pass locked rows, hold what is read, row
/// by row.
///
/// READCOMMITTEDLOCK is what READPAST needs where READ_COMMITTED_SNAPSHOT is on. Microsoft's page
/// on table hints puts it into one group with ROWLOCK and allows one of a group; Rebus.SqlServer
/// runs the two together on real servers. Should a server refuse the pair (1047), take ROWLOCK out:
/// page locks are off on every index anyway.
pub const HINTS: &str = "READPAST, UPDLOCK, ROWLOCK, READCOMMITTEDLOCK";

/// The sister tables, by suffix.
pub(crate) const SISTERS: [&str; 6] = [
    "dedup",
    "dedup_past",
    "effect",
    "queue",
    "failure",
    "schema",
];

/// Puts the names of one set of tables into a text. Names are lower-case identifiers, so brackets
/// quote them.
pub(crate) fn fill(table: &Table, text: &str) -> String {
    let schema = table
        .schema()
        .map(|schema| format!("[{schema}]."))
        .unwrap_or_default();
    let mut text = text
        .replace("{name}", table.name())
        .replace("{schema}", table.schema().unwrap_or_default())
        .replace("{job}", &format!("{schema}[{}]", table.name()))
        .replace("{hints}", HINTS)
        .replace("{columns}", &columns(table, ""))
        .replace("{inserted_columns}", &columns(table, "inserted."))
        .replace("{given_columns}", &given_columns(table))
        .replace("{column_types}", &column_types(table));
    for suffix in SISTERS {
        let sister = format!("{schema}[{}]", table.sister(suffix));
        text = text.replace(&format!("{{job_{suffix}}}"), &sister);
    }
    text
}

fn columns(table: &Table, prefix: &str) -> String {
    let columns = table.columns().iter();
    columns
        .map(|column| format!(", {prefix}[{}]", column.name))
        .collect()
}

fn given_columns(table: &Table) -> String {
    (0..table.columns().len())
        .map(|position| format!(", given.column_{position}"))
        .collect()
}

/// Where enqueue finds the business columns in a job's JSON array: behind the eight of its own.
fn column_types(table: &Table) -> String {
    let column = |(position, column): (usize, &queue_table_core::Column)| {
        let sql_type = match column.column_type {
            ColumnType::Integer => "BIGINT",
            ColumnType::Text => "NVARCHAR(MAX)",
            ColumnType::Uuid => "UNIQUEIDENTIFIER",
        };
        format!(",\n  column_{position} {sql_type} '$[{}]'", position + 8)
    };
    table.columns().iter().enumerate().map(column).collect()
}

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// Every statement for one set of tables, named like its file.
        #[derive(Debug, Clone)]
        pub struct Statements {
            pub(crate) table: Table,
            $(pub(crate) $name: String,)*
        }

        impl Statements {
            /// Puts the table's names into the statements.
            #[must_use]
            pub fn new(table: &Table) -> Self {
                Self {
                    table: table.clone(),
                    $($name: fill(table, include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                }
            }

            /// Each statement's name and text, header and all, for tools that check or print them.
            #[must_use]
            pub fn all(&self) -> Vec<(&'static str, &str)> {
                vec![$((stringify!($name), self.$name.as_str()),)*]
            }
        }
    };
}

statements! {
    ack, bury, bury_select, cancel, check, claim, claim_probe, dedup_lock, dedup_of, dedup_put, dedup_take, effect,
    enqueue, exists, fail, failure, failures, get, hold, ledger, list, lock, lock_free, migrate_lock, observe, past_delete,
    past_put, pause, promote, promote_probe, purge, purge_dedup, purge_effect, purge_failure, purge_select, purge_yield,
    reap, reap_select, renew, replay, resume, schema_create, stats,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::named("order")
            .and_then(|table| table.in_schema("shop"))
            .and_then(|table| table.with_column("tenant", ColumnType::Text))
            .and_then(|table| table.with_column("order_ref", ColumnType::Uuid))
            .unwrap()
    }

    #[test]
    fn every_statement_is_complete_once_the_names_are_in() {
        for (name, text) in Statements::new(&table()).all() {
            assert!(!text.contains(['{', '}']), "{name}: {text}");
            assert!(!text.trim_end().ends_with(';'), "{name}");
        }
    }

    #[test]
    fn every_file_is_a_statement() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap();
        // The session's settings are no statement of a table.
        let session = 1;
        assert_eq!(
            files.count(),
            Statements::new(&Table::default()).all().len() + session
        );
    }

    #[test]
    fn business_columns_follow_the_tables_own() {
        let sql = Statements::new(&table());
        assert!(sql.enqueue.contains("enqueued_at, [tenant], [order_ref]"));
        assert!(sql.enqueue.contains("column_1 UNIQUEIDENTIFIER '$[9]'"));
        assert!(
            sql.claim
                .contains("inserted.last_error, inserted.[tenant], inserted.[order_ref]")
        );
    }

    #[test]
    fn no_statement_compares_an_instant_for_equality() {
        for (name, text) in Statements::new(&Table::default()).all() {
            for column in ["run_at", "lease_until", "claimed_at"] {
                let conditions = text.lines().filter(|line| {
                    let line = line.trim_start();
                    line.starts_with("AND") || line.starts_with("WHERE")
                });
                for line in conditions {
                    assert!(!line.contains(&format!("{column} =")), "{name}: {line}");
                }
            }
        }
    }
}
