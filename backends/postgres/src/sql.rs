//! The texts of the statements, with a queue's own table and column names in place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use queue_table_core::{Column, ColumnType, Table};

/// Most texts with a literal limit that are prepared on each connection; a server keeps a plan for
/// each.
///
/// Limits beyond are sent without being prepared, which costs planning each time.
const LIMITS_PREPARED_MAX: usize = 64;

/// A statement's text, cut at its parameters.
#[derive(Debug)]
pub(crate) struct SqlText {
    pieces: Vec<(String, Option<usize>)>,
    cached: bool,
}

impl SqlText {
    /// Cuts the text at `$1`, `$2` and so on. Comments are left out: they name parameters too.
    fn new(sql: &str, cached: bool) -> Self {
        let lines = sql
            .lines()
            .filter(|line| !line.trim_start().starts_with("--"));
        let sql = lines.collect::<Vec<_>>().join("\n");
        let mut parts = sql.split('$');
        let mut pieces = vec![(parts.next().unwrap_or_default().to_owned(), None)];
        for part in parts {
            let digits = part
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(part.len());
            let number: usize = part[..digits].parse().unwrap_or_default();
            if let Some(last) = pieces.last_mut() {
                last.1 = number.checked_sub(1);
            }
            pieces.push((part[digits..].to_owned(), None));
        }
        Self { pieces, cached }
    }

    /// The text between parameters, each with the place of the parameter that follows it.
    pub(crate) fn pieces(&self) -> &[(String, Option<usize>)] {
        &self.pieces
    }

    /// Whether its prepared form is kept on the connection.
    pub(crate) fn is_cached(&self) -> bool {
        self.cached
    }
}

/// The texts of one statement with a literal limit: a limit that is a parameter is planned anew at
/// every call, or gets a plan for any limit, which reads the whole table.
#[derive(Debug)]
pub(crate) struct LimitedText {
    template: String,
    texts: Mutex<HashMap<u32, Arc<SqlText>>>,
}

impl LimitedText {
    fn new(template: String) -> Self {
        Self {
            template,
            texts: Mutex::default(),
        }
    }

    /// The text for one limit. A poisoned lock is taken all the same: the map is only ever added
    /// to.
    pub(crate) fn with_limit(&self, limit: u32) -> Arc<SqlText> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = texts.get(&limit) {
            return Arc::clone(text);
        }
        let cached = texts.len() < LIMITS_PREPARED_MAX;
        let sql = self.template.replace("{limit}", &limit.to_string());
        let text = Arc::new(SqlText::new(&sql, cached));
        if cached {
            texts.insert(limit, Arc::clone(&text));
        }
        text
    }
}

/// Puts a table's names into a statement or a migration.
#[derive(Debug)]
pub(crate) struct Names {
    substitutions: Vec<(&'static str, String)>,
}

impl Names {
    pub(crate) fn of(table: &Table) -> Self {
        let quoted = |name: &str| match table.schema() {
            Some(schema) => format!("\"{schema}\".\"{name}\""),
            None => format!("\"{name}\""),
        };
        let sister = |suffix: &str| quoted(&table.sister(suffix));
        Self {
            substitutions: vec![
                ("{job}", quoted(table.name())),
                ("{job_dedup}", sister("dedup")),
                ("{job_dedup_past}", sister("dedup_past")),
                ("{job_effect}", sister("effect")),
                ("{job_queue}", sister("queue")),
                ("{job_failure}", sister("failure")),
                ("{job_schema}", sister("schema")),
                ("{name}", table.name().to_owned()),
                ("{columns}", list(table, |_, name, _| format!(", {name}"))),
                (
                    "{numbered_columns}",
                    list(table, |_, name, _| format!(", n.{name}")),
                ),
                (
                    "{column_arrays}",
                    list(table, |place, _, sql| format!(", ${}::{sql}[]", place + 9)),
                ),
                (
                    "{column_params}",
                    list(table, |place, _, sql| format!(", ${}::{sql}", place + 8)),
                ),
                ("{column_texts}", column_texts(table)),
            ],
        }
    }

    /// The text with every name in place but `{limit}`.
    pub(crate) fn put_into(&self, sql: &str) -> String {
        let put =
            |sql: String, (mark, name): &(&'static str, String)| sql.replace(mark, name.as_str());
        self.substitutions.iter().fold(sql.to_owned(), put)
    }
}

fn list(table: &Table, item: impl Fn(usize, &str, &str) -> String) -> String {
    let item = |(place, column): (usize, &Column)| {
        let sql_type = match column.column_type {
            ColumnType::Integer => "BIGINT",
            ColumnType::Text => "TEXT",
            ColumnType::Uuid => "UUID",
        };
        item(place, &format!("\"{}\"", column.name), sql_type)
    };
    table.columns().iter().enumerate().map(item).collect()
}

/// The business columns as one array of texts, so that a row has the same shape whatever they are.
fn column_texts(table: &Table) -> String {
    let texts = list(table, |_, name, _| format!(", j.{name}::TEXT"));
    format!("ARRAY[{}]::TEXT[]", texts.trim_start_matches(", "))
}

macro_rules! texts {
    (plain: $($plain:ident)*; limited: $($limited:ident)*) => {
        /// Every statement of one queue.
        #[derive(Debug)]
        pub(crate) struct Texts {
            $(pub(crate) $plain: SqlText,)*
            $(pub(crate) $limited: LimitedText,)*
        }

        impl Texts {
            pub(crate) fn of(table: &Table) -> Self {
                let names = Names::of(table);
                Self {
                    $($plain: SqlText::new(
                        &names.put_into(include_str!(concat!("../sql/", stringify!($plain), ".sql"))),
                        true,
                    ),)*
                    $($limited: LimitedText::new(
                        names.put_into(include_str!(concat!("../sql/", stringify!($limited), ".sql"))),
                    ),)*
                }
            }
        }

        #[cfg(test)]
        const FILES: &[(&str, &str)] = &[
            $((stringify!($plain), include_str!(concat!("../sql/", stringify!($plain), ".sql"))),)*
            $((stringify!($limited), include_str!(concat!("../sql/", stringify!($limited), ".sql"))),)*
        ];
    };
}

texts! {
    plain: ack ack_one cancel claim_probe claim_probe_stepping dedup_free dedup_lock dedup_name dedup_take effect enqueue enqueue_one fail failures get
        list lock notify past_find past_forget pause purge purge_dedup purge_effect purge_failure reap reap_probe renew
        replay replay_hold resume state stats;
    limited: bury claim claim_stepping promote purge_select reap_select
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::named("mail_job")
            .and_then(|table| table.in_schema("app"))
            .and_then(|table| table.with_column("order_id", ColumnType::Integer))
            .and_then(|table| table.with_column("tenant", ColumnType::Uuid))
            .unwrap()
    }

    #[test]
    fn every_file_has_a_header_and_no_mark_is_left() {
        let names = Names::of(&table());
        for (name, sql) in FILES {
            let header: Vec<_> = sql
                .lines()
                .take_while(|line| line.starts_with("--"))
                .collect();
            assert!((3..=4).contains(&header.len()), "{name}: {header:?}");
            assert!(
                header.iter().any(|line| line.starts_with("-- params: ")),
                "{name}"
            );
            assert!(
                header.iter().any(|line| line.starts_with("-- rows: ")),
                "{name}"
            );
            assert!(!sql.trim_end().ends_with(';'), "{name}");
            let left = names.put_into(sql).replace("{limit}", "1");
            assert!(!left.contains('{') && !left.contains('}'), "{name}: {left}");
        }
    }

    #[test]
    fn parameters_are_found_wherever_they_stand_and_not_in_comments() {
        let text = SqlText::new("-- $3\nSELECT $1, $12::TEXT, $1", true);
        let places: Vec<_> = text.pieces().iter().map(|piece| piece.1).collect();
        assert_eq!(places, [Some(0), Some(11), Some(0), None]);
        assert_eq!(text.pieces()[2].0, "::TEXT, ");
    }

    #[test]
    fn only_so_many_limits_are_prepared() {
        let text = LimitedText::new("LIMIT {limit}".to_owned());
        let cached = (1..=1_000)
            .filter(|limit| text.with_limit(*limit).is_cached())
            .count();
        assert_eq!(cached, LIMITS_PREPARED_MAX);
        assert!(text.with_limit(1).is_cached() && !text.with_limit(1_000).is_cached());
        assert_eq!(text.with_limit(1_000).pieces()[0].0, "LIMIT 1000");
    }

    #[test]
    fn business_columns_stand_behind_the_queues_own() {
        let names = Names::of(&table());
        assert_eq!(
            names.put_into("{job} {columns} {column_params} {column_arrays}"),
            r#""app"."mail_job" , "order_id", "tenant" , $8::BIGINT, $9::UUID , $9::BIGINT[], $10::UUID[]"#
        );
        assert_eq!(
            names.put_into("{column_texts}"),
            r#"ARRAY[j."order_id"::TEXT, j."tenant"::TEXT]::TEXT[]"#
        );
        assert_eq!(
            Names::of(&Table::default()).put_into("{column_texts}"),
            "ARRAY[]::TEXT[]"
        );
    }
}
