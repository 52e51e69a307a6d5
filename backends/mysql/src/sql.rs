//! The statements, one whole statement per file, with the tables' names put in once.

use queue_table_core::{Column, ColumnType, Table};

use crate::server::Flavour;

/// Every statement of one set of tables on one kind of server.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) engine: &'static str,
    pub(crate) table: Table,
    /// Largest JSON document of one statement, in bytes.
    pub(crate) chunk_bytes_max: usize,
    texts: Texts,
}

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        #[derive(Debug)]
        struct Texts {
            $($name: String,)*
        }

        impl Texts {
            fn new(names: &Names<'_>) -> Self {
                Self {
                    $($name: names.put_into(include_str!(
                        concat!("../sql/", stringify!($name), ".sql")
                    )),)*
                }
            }
        }

        impl Statements {
            $(pub(crate) fn $name(&self) -> &str {
                &self.texts.$name
            })*
        }
    };
}

statements! {
    ack, cancel, check_columns, check_indexes, check_tables, claim, claim_select, claim_select_accepting,
    claim_step,
    dedup_holders, dedup_holders_in, dedup_lock, dedup_take, effect, enqueue, enqueue_many,
    enqueued, fail, failure, failures, get, judge, list, lock, lock_free, pause, promote,
    promote_probe, promote_select, promote_step, purge, purge_dedup,
    purge_effect, purge_failure, purge_keyed, purge_keys, purge_select, reap, reap_probe,
    reap_select,
    renew, replay, replay_key, resume, stats, version,
}

impl Statements {
    pub(crate) fn new(table: &Table, flavour: Flavour, chunk_bytes_max: usize) -> Self {
        Self {
            engine: flavour.engine(),
            table: table.clone(),
            chunk_bytes_max,
            texts: Texts::new(&Names { table, flavour }),
        }
    }
}

/// What stands for the placeholders of a statement's file.
pub(crate) struct Names<'t> {
    pub(crate) table: &'t Table,
    pub(crate) flavour: Flavour,
}

impl Names<'_> {
    /// The statement without its comments, its names put in.
    pub(crate) fn put_into(&self, file: &str) -> String {
        let mut text: String = file
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("--"))
            .collect::<Vec<_>>()
            .join(" ");
        for sister in ["dedup", "effect", "queue", "failure", "schema"] {
            text = text.replace(
                &format!("{{job_{sister}}}"),
                &self.quoted(&self.table.sister(sister)),
            );
        }
        text.replace("{job}", &self.quoted(self.table.name()))
            .replace("{name}", self.table.name())
            .replace("{collation}", self.flavour.collation())
            .replace("{columns}", &self.columns(|_, name| format!("j.{name}")))
            .replace("{insert_columns}", &self.columns(|_, name| name.to_owned()))
            .replace("{column_params}", &self.columns(|_, _| "?".to_owned()))
            .replace("{table_columns}", &self.columns(|at, _| format!("t.c{at}")))
            .replace("{json_columns}", &self.json_columns())
    }

    fn quoted(&self, name: &str) -> String {
        match self.table.schema() {
            Some(schema) => format!("`{schema}`.`{name}`"),
            None => format!("`{name}`"),
        }
    }

    /// A list of the business columns that follows other columns.
    fn columns(&self, text: impl Fn(usize, &str) -> String) -> String {
        let quoted = |column: &Column| format!("`{}`", column.name);
        let columns = self.table.columns().iter().enumerate();
        columns
            .map(|(at, column)| format!(", {}", text(at, &quoted(column))))
            .collect()
    }

    /// The business columns in a row of enqueue_many's JSON, behind its nine own values.
    fn json_columns(&self) -> String {
        let columns = self.table.columns().iter().enumerate();
        let path = |(at, column): (usize, &Column)| {
            let sql_type = match column.column_type {
                ColumnType::Integer => "BIGINT".to_owned(),
                ColumnType::Text => {
                    format!(
                        "LONGTEXT CHARACTER SET utf8mb4 COLLATE {}",
                        self.flavour.collation()
                    )
                }
                ColumnType::Uuid => "CHAR(36)".to_owned(),
            };
            format!(", c{at} {sql_type} PATH '$[{}]'", at + 9)
        };
        columns.map(path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_comments_left_out() {
        let table = Table::named("order")
            .and_then(|table| table.in_schema("shop"))
            .unwrap();
        let sql = Statements::new(&table, Flavour::Mysql, 1);
        assert_eq!(
            sql.resume(),
            "DELETE FROM `shop`.`order_queue` WHERE queue = ?"
        );
    }

    #[test]
    fn no_placeholder_is_left_over_on_either_server() {
        let table = Table::default()
            .with_column("order_id", ColumnType::Integer)
            .and_then(|table| table.with_column("tenant", ColumnType::Text))
            .unwrap();
        for flavour in [Flavour::Mysql, Flavour::Mariadb] {
            let texts = format!("{:?}", Statements::new(&table, flavour, 1).texts);
            // `{` stands only where Debug prints the struct itself.
            assert_eq!(texts.matches('{').count(), 1, "{texts}");
            assert!(!texts.contains("--"), "{texts}");
        }
    }
}
