//! Validated names: of queues, kinds, workers, dedup keys, effects, tables and columns.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, Problem};

/// Longest queue name, kind, worker id and effect name, in bytes of UTF-8.
///
/// 128 bytes are at most 256 bytes of UTF-16 and 512 of utf8mb4's worst case, so that a key of
/// several names stays below every engine's index limit (SQL Server 900 bytes, MySQL 3,072).
pub const NAME_BYTES_MAX: usize = 128;

/// Longest dedup key, in bytes of UTF-8. With a queue name it is at most 768 bytes of UTF-16, below
/// SQL Server's 900.
pub const DEDUP_KEY_BYTES_MAX: usize = 256;

/// Longest table or column name, in bytes. Leaves room for suffixes below PostgreSQL's 63.
pub const IDENTIFIER_BYTES_MAX: usize = 40;

fn check_name(what: &'static str, text: &str, bytes_max: usize) -> Result<(), Invalid> {
    let problem = if text.is_empty() {
        Problem::Empty { bytes_max }
    } else if text.len() > bytes_max {
        Problem::TooLong {
            bytes: text.len(),
            bytes_max,
        }
    } else if let Some(at) = text.find(char::is_control) {
        Problem::ControlCharacter { at }
    } else if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        Problem::BlankEdge
    } else {
        return Ok(());
    };
    Err(Invalid::new(what, problem))
}

fn check_identifier(what: &'static str, text: &str) -> Result<(), Invalid> {
    if text.len() > IDENTIFIER_BYTES_MAX {
        return Err(Invalid::new(
            what,
            Problem::TooLong {
                bytes: text.len(),
                bytes_max: IDENTIFIER_BYTES_MAX,
            },
        ));
    }
    let word = text
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if word && text.starts_with(|first: char| first.is_ascii_lowercase()) {
        Ok(())
    } else {
        Err(Invalid::new(what, Problem::NotAnIdentifier))
    }
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text and wraps it.
            ///
            /// # Errors
            /// [`Invalid`] naming the rule that the text broke.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
                let text = text.as_ref();
                let check: fn(&str) -> Result<(), Invalid> = $check;
                check(text)?;
                Ok(Self(Arc::from(text)))
            }

            /// Wraps a text read back from the table, which is not checked again: a row written by
            /// other means must still be readable. For backends.
            #[doc(hidden)]
            #[must_use]
            pub fn stored(text: &str) -> Self {
                Self(Arc::from(text))
            }

            /// The text as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

checked_text! {
    /// The name of a queue: 1 to 128 bytes, no control characters, no blank at either end.
    ///
    /// Names are compared exactly on every engine: `Mail`, `mail` and `mäil` are three queues.
    ///
    /// ```
    /// use queue_table_core::QueueName;
    ///
    /// assert_eq!(QueueName::new("mail")?.as_str(), "mail");
    /// assert!(QueueName::new("").is_err());
    /// # Ok::<(), queue_table_core::Invalid>(())
    /// ```
    QueueName, "queue name", |text| check_name("queue name", text, NAME_BYTES_MAX)
}

checked_text! {
    /// What a job is for, such as `invoice.send`; it chooses the handler. 1 to 128 bytes, compared
    /// exactly.
    Kind, "kind", |text| check_name("kind", text, NAME_BYTES_MAX)
}

checked_text! {
    /// Who holds a claim: 1 to 128 bytes, compared exactly. Two running workers must never share
    /// one.
    ///
    /// Use [`WorkerId::unique`] unless a test needs a fixed one.
    WorkerId, "worker id", |text| check_name("worker id", text, NAME_BYTES_MAX)
}

checked_text! {
    /// Names one logical job within a queue, so that a second enqueue finds the first. 1 to 256
    /// bytes, compared exactly.
    DedupKey, "dedup key", |text| check_name("dedup key", text, DEDUP_KEY_BYTES_MAX)
}

checked_text! {
    /// Names one step of a job whose effect is recorded, so that a replacement does not repeat it.
    /// 1 to 128 bytes.
    EffectName, "effect name", |text| check_name("effect name", text, NAME_BYTES_MAX)
}

checked_text! {
    /// The name of the job table, to which `_dedup`, `_effect` and so on are appended for its
    /// sister tables.
    ///
    /// 1 to 40 lower-case letters, digits and underscores, a letter first; reserved words are fine
    /// (names are quoted).
    TableName, "table name", |text| check_identifier("table name", text)
}

checked_text! {
    /// The name of a database schema that holds the tables, under the rules of [`TableName`].
    SchemaName, "schema name", |text| check_identifier("schema name", text)
}

checked_text! {
    /// The name of a business column, under the rules of [`TableName`].
    ColumnName, "column name", |text| check_identifier("column name", text)
}

impl WorkerId {
    /// Makes an id that no other running worker has: the given name, this host, this process and 64
    /// random bits.
    ///
    /// Name and host are shortened where needed to keep the whole within 128 bytes.
    ///
    /// # Errors
    /// [`Invalid`] when `name` is no valid name.
    ///
    /// ```
    /// use queue_table_core::WorkerId;
    ///
    /// let one = WorkerId::unique("mailer")?;
    /// assert!(one.as_str().starts_with("mailer@"));
    /// assert_ne!(one, WorkerId::unique("mailer")?);
    /// # Ok::<(), queue_table_core::Invalid>(())
    /// ```
    pub fn unique(name: &str) -> Result<Self, Invalid> {
        check_name("worker name", name, NAME_BYTES_MAX)?;
        let host = host_name();
        let random = fastrand::Rng::new().u64(..);
        let text = format!(
            "{}@{}:{}:{random:016x}",
            shorten(name, 48).trim_end(),
            shorten(&host, 40),
            std::process::id()
        );
        Self::new(text)
    }
}

/// At most `bytes_max` bytes of the text, cut at a character boundary.
pub(crate) fn shorten(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The host's name where the system tells it without a driver, else `host`: the id is unique
/// without it.
fn host_name() -> String {
    let told =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    let told = told
        .or_else(|_| std::env::var("COMPUTERNAME"))
        .unwrap_or_default();
    let word: String = told
        .trim()
        .chars()
        .filter(|letter| letter.is_ascii_graphic())
        .collect();
    if word.is_empty() {
        "host".to_owned()
    } else {
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Problem {
        QueueName::new(text).unwrap_err().problem().clone()
    }

    #[test]
    fn empty_queue_name_is_rejected() {
        assert_eq!(problem(""), Problem::Empty { bytes_max: 128 });
    }

    #[test]
    fn queue_name_of_128_bytes_is_taken_and_of_129_rejected() {
        assert!(QueueName::new("q".repeat(128)).is_ok());
        assert_eq!(
            problem(&"q".repeat(129)),
            Problem::TooLong {
                bytes: 129,
                bytes_max: 128
            }
        );
    }

    #[test]
    fn the_limit_counts_bytes_not_characters() {
        assert!(QueueName::new("🍣".repeat(32)).is_ok());
        assert_eq!(
            problem(&"🍣".repeat(33)),
            Problem::TooLong {
                bytes: 132,
                bytes_max: 128
            }
        );
    }

    #[test]
    fn control_characters_and_nul_are_rejected_by_position() {
        assert_eq!(problem("a\tb"), Problem::ControlCharacter { at: 1 });
        assert_eq!(problem("ab\0"), Problem::ControlCharacter { at: 2 });
        assert_eq!(problem("a\u{85}"), Problem::ControlCharacter { at: 1 });
    }

    #[test]
    fn blank_edges_are_rejected_and_inner_blanks_taken() {
        for text in [" mail", "mail ", "\u{a0}mail", "mail\u{3000}", " "] {
            assert_eq!(problem(text), Problem::BlankEdge, "{text:?}");
        }
        assert!(QueueName::new("send mail").is_ok());
    }

    #[test]
    fn dedup_key_of_256_bytes_is_taken_and_of_257_rejected() {
        assert!(DedupKey::new("k".repeat(256)).is_ok());
        assert!(DedupKey::new("k".repeat(257)).is_err());
    }

    #[test]
    fn table_names_are_lower_case_identifiers() {
        for name in ["job", "order", "j_1", &"t".repeat(40)] {
            assert!(TableName::new(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "Job",
            "1job",
            "_job",
            "job-1",
            "job\"",
            "jöb",
            "a.b",
            &"t".repeat(41),
        ] {
            assert!(TableName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_unique_worker_id_fits_however_long_its_name_is() {
        let id = WorkerId::unique(&"é".repeat(64)).unwrap();
        assert!(id.as_str().len() <= NAME_BYTES_MAX, "{id}");
    }
}
