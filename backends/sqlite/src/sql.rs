//! The statements of `sql/` with the table's names put in, made once when the queue is built.
//!
//! A parameter that a plan could depend on is written `+:name`. SQLite looks at a bare one while it
//! plans, and plans the statement anew whenever another value is bound, which cost a claim five
//! times the work of the claim itself.

use queue_table_core::Table;

/// Puts the names of one set of tables into a text.
pub(crate) struct Names<'a> {
    table: &'a Table,
}

impl<'a> Names<'a> {
    pub(crate) fn new(table: &'a Table) -> Self {
        Self { table }
    }

    /// Tables are qualified with `main`: a temporary table of the same name must not come first.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut text = text
            .replace("{name}", self.table.name())
            .replace("{job}", &format!("\"main\".\"{}\"", self.table.name()))
            .replace("{columns}", &self.columns())
            .replace("{column_values}", &self.column_values());
        for suffix in [
            "dedup",
            "dedup_past",
            "effect",
            "queue",
            "failure",
            "schema",
        ] {
            let sister = format!("\"main\".\"{}\"", self.table.sister(suffix));
            text = text.replace(&format!("{{job_{suffix}}}"), &sister);
        }
        text
    }

    fn columns(&self) -> String {
        let columns = self.table.columns().iter();
        columns
            .map(|column| format!(", \"{}\"", column.name))
            .collect()
    }

    fn column_values(&self) -> String {
        (0..self.table.columns().len())
            .map(|position| format!(", :column_{position}"))
            .collect()
    }
}

/// The text without its comment lines: the statement cache compares whole texts at each use.
fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// Every statement, named like its file.
        pub(crate) struct Statements {
            $(pub(crate) $name: String,)*
        }

        impl Statements {
            pub(crate) fn new(table: &Table) -> Self {
                let names = Names::new(table);
                Self {
                    $($name: names.fill(&without_comments(include_str!(
                        concat!("../sql/", stringify!($name), ".sql")
                    ))),)*
                }
            }

            /// Each statement's name and text.
            #[cfg(test)]
            pub(crate) fn all(&self) -> Vec<(&'static str, &str)> {
                vec![$((stringify!($name), self.$name.as_str()),)*]
            }
        }
    };
}

statements! {
    ack, bury, bury_select, cancel, claim, claim_probe, claim_select, dedup_find, dedup_put, effect, enqueue, fail,
    failure, failures, get, hold, ledger, list, lock, now, observe, past_delete, past_find, past_put, pause, promote,
    purge, purge_dedup, purge_effect, purge_failure, purge_select, reap, reap_select, release, renew, replay, resume, stats,
}

#[cfg(test)]
mod tests {
    use super::*;
    use queue_table_core::ColumnType;

    #[test]
    fn every_statement_is_complete_once_the_names_are_in() {
        let table = Table::named("order").unwrap();
        let table = table.with_column("tenant", ColumnType::Text).unwrap();
        for (name, text) in Statements::new(&table).all() {
            assert!(!text.contains(['{', '}']), "{name}: {text}");
            assert!(!text.contains("--"), "{name}: {text}");
            assert!(!text.trim_end().ends_with(';'), "{name}");
        }
    }

    #[test]
    fn every_file_is_a_statement() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap();
        assert_eq!(
            files.count(),
            Statements::new(&Table::default()).all().len()
        );
    }

    #[test]
    fn business_columns_follow_the_tables_own() {
        let table = Table::default()
            .with_column("order_id", ColumnType::Integer)
            .unwrap();
        let sql = Statements::new(&table);
        assert!(sql.enqueue.contains(r#"enqueued_at, "order_id""#));
        assert!(sql.enqueue.contains(":now, :column_0"));
        assert!(sql.get.contains(r#"last_error, "order_id""#));
    }
}
