//! binlog_format: STATEMENT is refused by name; with the others nothing is unsafe.

use mysql::TxOpts;
use mysql::prelude::Queryable;
use queue_table_core::{Error, TransactionalBackend};

use crate::support::{job, on_each, request};

#[test]
fn a_statement_binlog_is_refused_by_name_where_it_is_written() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let mut session = server.session();
        session
            .query_drop("SET SESSION binlog_format = 'STATEMENT'")
            .unwrap();
        let writes: Option<i64> = session.query_first("SELECT @@log_bin").unwrap();
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        let answer = queue.enqueue_in(&mut tx, &[job()]);
        if writes == Some(1) {
            let refused = answer.unwrap_err();
            assert!(
                matches!(&refused, Error::Unsupported { lacks, .. } if lacks.contains("binlog_format")),
                "{refused:?}"
            );
        } else {
            answer.unwrap();
        }
    });
}

#[test]
fn no_statement_of_a_jobs_life_warns() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        for format in ["ROW", "MIXED"] {
            let mut session = server.session();
            session
                .query_drop(format!("SET SESSION binlog_format = '{format}'"))
                .unwrap();
            let mut tx = session.start_transaction(TxOpts::default()).unwrap();
            let warnings = |tx: &mut mysql::Transaction<'_>| -> Vec<mysql::Row> {
                tx.query("SHOW WARNINGS").unwrap()
            };
            queue.enqueue_in(&mut tx, &[job(), job()]).unwrap();
            assert!(warnings(&mut tx).is_empty());
            let claims = queue.claim_in(&mut tx, &request(10)).unwrap();
            assert!(warnings(&mut tx).is_empty());
            queue.ack_in(&mut tx, &claims[0].receipt).unwrap();
            assert!(warnings(&mut tx).is_empty());
            tx.rollback().unwrap();
        }
    });
}
