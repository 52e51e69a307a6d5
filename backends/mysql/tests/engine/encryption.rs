//! Encryption: asked for, it is there, or the connection is refused.

use mysql::prelude::Queryable;
use mysql::{Opts, SslOpts};
use queue_table_core::{Error, QueueBackend, TransactionalBackend};
use queue_table_mysql::MysqlQueue;

use crate::support::{Server, on_each, request};

fn cipher(queue: &MysqlQueue) -> Result<String, Error> {
    queue.transaction(|tx| {
        let status: Option<(String, String)> =
            tx.query_first("SHOW STATUS LIKE 'Ssl_cipher'").unwrap();
        Ok(status.unwrap().1)
    })
}

fn url(server: &Server, parameters: &str) -> String {
    let opts: Opts = server.opts().into();
    format!(
        "mysql://{}:{}@{}:{}/{}?{parameters}",
        opts.get_user().unwrap(),
        opts.get_pass().unwrap(),
        opts.get_ip_or_hostname(),
        opts.get_tcp_port(),
        opts.get_db_name().unwrap()
    )
}

/// MariaDB before 11.4 makes no certificate by itself.
fn offers_encryption(server: &Server) -> bool {
    let mut connection = mysql::Conn::new(server.opts()).unwrap();
    let answer: Option<(String, String)> = connection
        .query_first("SHOW GLOBAL VARIABLES LIKE 'have_ssl'")
        .unwrap();
    answer.is_none_or(|(_, value)| value == "YES")
}

#[test]
fn an_address_that_requires_encryption_is_encrypted_on_loopback_too() {
    on_each(|server| {
        let parameters = "require_ssl=true&danger_accept_invalid_certs=true";
        let queue = MysqlQueue::builder(&url(server, parameters))
            .unwrap()
            .build()
            .unwrap();
        if offers_encryption(server) {
            assert_ne!(cipher(&queue).unwrap(), "");
        } else {
            let refused = cipher(&queue).unwrap_err();
            assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
        }
        let plain = MysqlQueue::builder(&url(server, ""))
            .unwrap()
            .build()
            .unwrap();
        assert_eq!(cipher(&plain).unwrap(), "");
    });
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    on_each(|server| {
        let queue = MysqlQueue::builder(&url(server, "require_ssl=true"))
            .unwrap()
            .pool_wait(std::time::Duration::from_millis(300))
            .build()
            .unwrap();
        let refused = queue.claim(&request(1)).unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
    });
}

#[test]
fn a_given_root_certificate_vouches_for_the_server() {
    on_each(|server| {
        let Ok(root) = std::env::var("MYSQL_TLS_CA") else {
            println!("{}: not run, MYSQL_TLS_CA is not set", server.engine);
            return;
        };
        if !server.is_mysql() {
            // MYSQL_TLS_CA is the MySQL server's own.
            return;
        }
        // The server's own certificate has no host name in it.
        let ssl = SslOpts::default()
            .with_root_cert_path(Some(std::path::PathBuf::from(root)))
            .with_danger_skip_domain_validation(true);
        let queue = MysqlQueue::builder_with(server.opts().ssl_opts(ssl))
            .build()
            .unwrap();
        assert_ne!(cipher(&queue).unwrap(), "");
    });
}
