//! Which server this is, and whether the queue can work on it as it is set up.

use std::collections::HashMap;

use mysql::prelude::Queryable;
use queue_table_core::{Error, Result};

use crate::error::failed;

/// Oldest supported versions. MariaDB before 10.8 accepts DESC in an index and ignores it, and
/// every claim would sort.
const MYSQL_MIN: Version = (8, 4, 0);
const MARIADB_MIN: Version = (10, 11, 0);

type Version = (u32, u32, u32);

/// The two products that speak this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    Mysql,
    Mariadb,
}

impl Flavour {
    pub(crate) fn engine(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::Mariadb => "mariadb",
        }
    }

    /// Compares every code point, and does not ignore blanks at the end as `utf8mb4_bin` does.
    pub(crate) fn collation(self) -> &'static str {
        match self {
            Self::Mysql => "utf8mb4_0900_bin",
            Self::Mariadb => "utf8mb4_nopad_bin",
        }
    }
}

/// A server as it described itself.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) flavour: Flavour,
    /// As the server tells it.
    pub(crate) version: String,
    variables: HashMap<String, String>,
}

impl Server {
    /// Asks the server about itself. Reads only, so it may run inside a caller's transaction.
    pub(crate) fn ask<Q: Queryable>(session: &mut Q) -> Result<Self> {
        let version: Option<String> = session
            .query_first("SELECT VERSION()")
            .map_err(failed("mysql", "connect"))?;
        let version = version.unwrap_or_default();
        let flavour = flavour_of(&version);
        // All, and not each as @@name: one that a version does not have is then only missing.
        let variables: Vec<(String, String)> = session
            .query("SHOW SESSION VARIABLES")
            .map_err(failed(flavour.engine(), "connect"))?;
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.to_lowercase(), value))
            .collect();
        Ok(Self {
            flavour,
            version,
            variables,
        })
    }

    /// A variable as SHOW VARIABLES tells it; empty when the server does not have it.
    pub(crate) fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }

    /// A variable that is a number; 0 when the server does not have it.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.variable(name).parse().unwrap_or(0)
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        matches!(self.variable(name), "ON" | "1")
    }

    /// Refuses what the queue cannot work on, by name, before the first statement fails with a
    /// riddle.
    pub(crate) fn check_supported(&self) -> Result<()> {
        let engine = self.flavour.engine();
        let lacks = match self.unsupported() {
            Some(lacks) => lacks,
            None => return Ok(()),
        };
        Err(Error::Unsupported { engine, lacks })
    }

    fn unsupported(&self) -> Option<String> {
        let (product, least) = match self.flavour {
            Flavour::Mysql => ("MySQL", MYSQL_MIN),
            Flavour::Mariadb => ("MariaDB", MARIADB_MIN),
        };
        if parse_version(&self.version) < least {
            let (major, minor, _) = least;
            let version = &self.version;
            return Some(format!(
                "version {version}; {product} {major}.{minor} or later is needed"
            ));
        }
        if self.is_on("log_bin") && self.variable("binlog_format") == "STATEMENT" {
            return Some(
                "binlog_format is STATEMENT, which cannot log READ COMMITTED; set ROW or MIXED"
                    .to_owned(),
            );
        }
        None
    }
}

fn flavour_of(version: &str) -> Flavour {
    if version.to_ascii_lowercase().contains("mariadb") {
        Flavour::Mariadb
    } else {
        Flavour::Mysql
    }
}

/// The three numbers of a version such as `9.7.4-2` or `5.5.5-10.11.6-MariaDB`, 0 for those that
/// are missing.
fn parse_version(version: &str) -> Version {
    // Old MariaDB servers put this before their own version for the sake of old replicas.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut numbers = version
        .split(|letter: char| !letter.is_ascii_digit())
        .map(|digits| digits.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(version: &str, variables: &[(&str, &str)]) -> Server {
        Server {
            flavour: flavour_of(version),
            version: version.to_owned(),
            variables: variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn old_versions_are_refused_by_name() {
        for version in [
            "5.7.44-log",
            "8.0.39",
            "8.3.0",
            "10.6.18-MariaDB",
            "5.5.5-10.5.23-MariaDB-log",
        ] {
            let refused = server(version, &[])
                .check_supported()
                .unwrap_err()
                .to_string();
            assert!(
                refused.contains(version) && refused.contains("or later is needed"),
                "{refused}"
            );
        }
    }

    #[test]
    fn supported_versions_are_taken() {
        for version in [
            "8.4.0",
            "8.4.6-6",
            "9.7.4-2",
            "10.11.18-MariaDB",
            "5.5.5-10.11.2-MariaDB",
            "11.8.9-MariaDB-4 from Debian",
        ] {
            assert!(server(version, &[]).check_supported().is_ok(), "{version}");
        }
    }

    #[test]
    fn a_statement_binlog_is_refused_only_when_it_is_written() {
        let refused = server(
            "9.7.4",
            &[("log_bin", "ON"), ("binlog_format", "STATEMENT")],
        );
        let message = refused.check_supported().unwrap_err().to_string();
        assert!(message.contains("binlog_format"), "{message}");
        for variables in [
            [("log_bin", "OFF"), ("binlog_format", "STATEMENT")],
            [("log_bin", "ON"), ("binlog_format", "MIXED")],
        ] {
            assert!(server("9.7.4", &variables).check_supported().is_ok());
        }
    }
}
