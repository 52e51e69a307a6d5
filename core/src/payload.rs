//! The payload: JSON text, checked once before it is stored and returned byte for byte.

use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, Problem};

/// Longest payload, in bytes. Larger documents belong in a table or a store of their own, with
/// their key in the payload.
///
/// 1 MiB keeps a batch within every engine's packet limit (MariaDB's default is 16 MiB).
pub const PAYLOAD_BYTES_MAX: usize = 1_048_576;

/// Deepest nesting of arrays and objects. MariaDB's JSON functions refuse more than 32 levels,
/// MySQL's more than 100.
pub const PAYLOAD_DEPTH_MAX: usize = 30;

const WHAT: &str = "payload";

/// One JSON text that every engine accepts, kept byte for byte: blanks, key order, duplicate keys
/// and number forms stay.
///
/// Refused, because some engine would refuse or change it: text that is not exactly one JSON value,
/// the escapes `\u0000` and unpaired surrogates, numbers that no double can hold, nesting deeper
/// than 30, more than 1 MiB.
///
/// ```
/// use queue_table_core::Payload;
///
/// let payload = Payload::from_json(r#"{"b":1, "a":1e2}"#)?;
/// assert_eq!(payload.as_str(), r#"{"b":1, "a":1e2}"#);
/// assert!(Payload::from_json(r#"{"a":"\u0000"}"#).is_err());
/// # Ok::<(), queue_table_core::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Payload(Box<str>);

impl Payload {
    /// Checks the text and keeps it as it is.
    ///
    /// # Errors
    /// [`Invalid`] when it is too large, is not one JSON value, or holds something that not every
    /// engine accepts.
    pub fn from_json(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        check(&text)?;
        Ok(Self(text.into_boxed_str()))
    }

    /// Serialises a value to JSON and checks the result.
    ///
    /// # Errors
    /// [`Invalid`] when the value does not serialise, or as for [`Payload::from_json`].
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, Invalid> {
        let text = serde_json::to_string(value).map_err(|error| {
            Invalid::new(
                WHAT,
                Problem::Json {
                    reason: error.to_string(),
                },
            )
        })?;
        Self::from_json(text)
    }

    /// The text exactly as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Payload {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::from_json(text)
    }
}

impl From<Payload> for String {
    fn from(payload: Payload) -> Self {
        payload.0.into_string()
    }
}

/// The size only: payloads may hold personal data, and Debug output ends in logs.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

/// A payload as it came from the table.
///
/// A row may have been written by other means, so it is decoded only when asked: one broken payload
/// fails its own job and not the batch that was claimed with it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredPayload(Box<[u8]>);

impl StoredPayload {
    /// Wraps the stored bytes. For backends.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into().into_boxed_slice())
    }

    /// The stored bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The stored text.
    ///
    /// # Errors
    /// [`PayloadError`] when the bytes are no UTF-8: the row was not written by this crate. Fail
    /// the job as dead.
    pub fn as_str(&self) -> Result<&str, PayloadError> {
        std::str::from_utf8(&self.0).map_err(|error| PayloadError(error.to_string()))
    }

    /// Decodes the payload.
    ///
    /// # Errors
    /// [`PayloadError`] when the text is not the JSON of a `T`. Trying again cannot help: fail the
    /// job as dead.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        serde_json::from_slice(&self.0).map_err(|error| PayloadError(error.to_string()))
    }
}

impl fmt::Debug for StoredPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredPayload({} bytes)", self.0.len())
    }
}

/// A stored payload that cannot be decoded; the text says where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("payload cannot be decoded: {0}")]
pub struct PayloadError(String);

impl PayloadError {
    /// The payload could be read, but not be written in its newer shape.
    pub(crate) fn upcast(error: serde_json::Error) -> Self {
        Self(format!("the upcast payload does not serialise: {error}"))
    }
}

fn check(text: &str) -> Result<(), Invalid> {
    if text.len() > PAYLOAD_BYTES_MAX {
        let problem = Problem::TooLong {
            bytes: text.len(),
            bytes_max: PAYLOAD_BYTES_MAX,
        };
        return Err(Invalid::new(WHAT, problem));
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    let read = Portable {
        depth_left: PAYLOAD_DEPTH_MAX,
    }
    .deserialize(&mut parser)
    .and_then(|()| parser.end());
    read.map_err(|error| {
        Invalid::new(
            WHAT,
            Problem::Json {
                reason: error.to_string(),
            },
        )
    })
}

/// Reads one JSON value to its end, decoding every string and number, and keeps nothing.
#[derive(Clone, Copy)]
struct Portable {
    depth_left: usize,
}

impl Portable {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        let too_deep = || {
            E::custom(format!(
                "nested deeper than the {PAYLOAD_DEPTH_MAX} levels allowed"
            ))
        };
        Ok(Self {
            depth_left: self.depth_left.checked_sub(1).ok_or_else(too_deep)?,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Portable {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Portable {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if text.contains('\0') {
            return Err(E::custom(
                "the character U+0000, which PostgreSQL cannot process, is not allowed",
            ));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        while items.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        while entries.next_key_seed(inner)?.is_some() {
            entries.next_value_seed(inner)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Payload::from_json(text).unwrap_err().to_string()
    }

    #[test]
    fn bytes_are_kept_as_given() {
        let text = r#" {"b":1,"a":2,"a":3,"n":9007199254740993,"u":18446744073709551615,"f":1.10,"e":1e2,"s":"é🍺"} "#;
        assert_eq!(Payload::from_json(text).unwrap().as_str(), text);
    }

    #[test]
    fn every_kind_of_json_value_is_taken() {
        for text in [
            "null",
            "true",
            "0",
            "-1.5e-3",
            "\"\"",
            "[]",
            "{}",
            "[1,[2,{\"a\":null}]]",
        ] {
            assert!(Payload::from_json(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_one_json_value_is_rejected() {
        for text in [
            "",
            " ",
            "{",
            "nul",
            "{'a':1}",
            "1 2",
            "{\"a\":1}x",
            "[1,]",
            "NaN",
            "01",
        ] {
            assert!(
                refused(text).starts_with("payload is not JSON that every engine accepts: "),
                "{text}"
            );
        }
    }

    #[test]
    fn escaped_nul_is_rejected_in_values_and_keys() {
        assert!(refused(r#"{"a":"x\u0000y"}"#).contains("U+0000"));
        assert!(refused(r#"{"\u0000":1}"#).contains("U+0000"));
    }

    #[test]
    fn unpaired_surrogates_are_rejected() {
        assert!(Payload::from_json(r#""\ud83d\ude00""#).is_ok());
        for text in [r#""\ud83d""#, r#""\ude00""#, r#"{"\ud83d":1}"#] {
            assert!(
                refused(text).contains("surrogate") || refused(text).contains("hex escape"),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_beyond_a_double_are_rejected() {
        assert!(refused("1e400").contains("number out of range"));
    }

    #[test]
    fn nesting_to_the_limit_is_taken_and_one_more_rejected() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Payload::from_json(nested(PAYLOAD_DEPTH_MAX)).is_ok());
        assert!(refused(&nested(PAYLOAD_DEPTH_MAX + 1)).contains("deeper than the 30 levels"));
        assert!(refused(&nested(100_000)).contains("deeper"));
    }

    #[test]
    fn a_payload_of_the_limit_is_taken_and_one_byte_more_rejected() {
        let of_bytes = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        assert!(Payload::from_json(of_bytes(PAYLOAD_BYTES_MAX)).is_ok());
        assert_eq!(
            refused(&of_bytes(PAYLOAD_BYTES_MAX + 1)),
            "payload has 1048577 bytes; at most 1048576 are allowed"
        );
    }

    #[test]
    fn debug_output_does_not_show_the_payload() {
        assert_eq!(
            format!("{:?}", Payload::from_json("\"secret\"").unwrap()),
            "Payload(8 bytes)"
        );
        assert_eq!(
            format!("{:?}", StoredPayload::new(b"\"secret\"".to_vec())),
            "StoredPayload(8 bytes)"
        );
    }

    #[test]
    fn an_undecodable_payload_is_an_error_of_its_own() {
        let stored = StoredPayload::new(vec![0x22, 0xff, 0x22]);
        assert!(stored.as_str().is_err());
        assert!(stored.decode::<String>().is_err());
        assert_eq!(stored.as_bytes(), [0x22, 0xff, 0x22]);
    }
}
