//! Where the server is and how a connection behaves: ADO and URL connection strings, timeouts, TLS.

use std::fmt;
use std::time::Duration;

use queue_table_core::{Error, Invalid, Problem, Result};
use tiberius::{AuthMethod, Config, EncryptionLevel};

use crate::error::unsupported;

/// Whether this build can encrypt at all.
const TLS: bool = cfg!(any(feature = "rustls", feature = "native-tls"));

/// Where the server is and how a connection behaves.
///
/// Connections are encrypted and the server's certificate is checked, unless the string says
/// otherwise. A build without the features `rustls` and `native-tls` refuses a string that does not
/// say `encrypt=false`, instead of sending a password in the clear.
///
/// ```
/// use queue_table_sqlserver::ConnectOptions;
///
/// let options = ConnectOptions::parse("sqlserver://app:secret@db.example:1433/shop?encrypt=false")?;
/// assert_eq!(options.address(), "db.example:1433");
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), queue_table_core::Error>(())
/// ```
#[derive(Clone)]
pub struct ConnectOptions {
    pub(crate) config: Config,
    pub(crate) connect_timeout: Duration,
    pub(crate) lock_timeout: Duration,
}

/// The address only: user, password and certificates stay out of logs.
impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

impl ConnectOptions {
    /// Reads a connection string of either form.
    ///
    /// A text that begins with `sqlserver://` or `mssql://` is a URL:
    /// `sqlserver://user:password@host:port/database`, percent-encoded, port 1433 by default. Its
    /// query takes `encrypt` (`true`, `false`, `strict`), `trust_server_certificate`,
    /// `trust_server_certificate_ca` (a file), `application_name`, and in whole seconds
    /// `connect_timeout` (15), `command_timeout` (30) and `lock_timeout` (10).
    ///
    /// Anything else is an ADO string, such as `Server=tcp:host,1433;Database=shop;User
    /// Id=app;Password=...`, with `Connect Timeout` and `Command Timeout` in seconds.
    ///
    /// # Errors
    /// [`Error::Rejected`] for a text that is neither (it is not repeated in the message: it holds
    /// a password), and [`Error::Unsupported`] when encryption is asked for, or not refused, in a
    /// build without TLS.
    pub fn parse(text: &str) -> Result<Self> {
        let rest = text
            .strip_prefix("sqlserver://")
            .or_else(|| text.strip_prefix("mssql://"));
        match rest {
            Some(rest) => from_url(rest),
            None => from_ado(text),
        }
    }

    /// Uses a configuration of tiberius: for ways to log in that connection strings do not cover.
    ///
    /// Half a surrogate pair in a text written by other means is read as U+FFFD.
    #[must_use]
    pub fn of(mut config: Config) -> Self {
        // NVARCHAR may hold half a surrogate pair. Strictly decoded, one such text would cost the
        // batch it came with.
        config.lossy_utf16_decoding(true);
        Self {
            config,
            connect_timeout: Duration::from_secs(15),
            lock_timeout: Duration::from_secs(10),
        }
    }

    /// The server's host and port.
    #[must_use]
    pub fn address(&self) -> String {
        self.config.get_addr()
    }

    /// Bounds the TCP connect, and after it the handshake and login; 15 seconds each by default.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.handshake_timeout(Some(timeout));
        self.connect_timeout = timeout;
        self
    }

    /// Bounds each answer of the server; 30 seconds by default. A connection that ran into it is
    /// closed.
    ///
    /// Keep it longer than the lock timeout, which leaves the connection usable.
    #[must_use]
    pub fn with_command_timeout(mut self, timeout: Duration) -> Self {
        self.config.command_timeout(Some(timeout));
        self
    }

    /// Bounds each wait for a lock; 10 seconds by default. Running into it is
    /// [`Error::Contention`].
    #[must_use]
    pub fn with_lock_timeout(self, timeout: Duration) -> Self {
        Self {
            lock_timeout: timeout,
            ..self
        }
    }

    fn with_timeouts(mut self, pairs: &[(String, String)]) -> Result<Self> {
        for (key, value) in pairs {
            let apply: fn(Self, Duration) -> Self = match key.as_str() {
                "connecttimeout" | "connectiontimeout" => Self::with_connect_timeout,
                "commandtimeout" => Self::with_command_timeout,
                "locktimeout" => Self::with_lock_timeout,
                _ => continue,
            };
            let seconds = value
                .parse()
                .map_err(|_| invalid("has a timeout that is no whole number of seconds"))?;
            self = apply(self, Duration::from_secs(seconds));
        }
        Ok(self)
    }
}

fn invalid(rule: &'static str) -> Error {
    Invalid::new("connection string", Problem::Other(rule)).into()
}

/// Blanks and underscores in keys do not count, nor does case.
fn normal(key: &str) -> String {
    let letters = key.chars().filter(|letter| !matches!(letter, ' ' | '_'));
    letters.flat_map(char::to_lowercase).collect()
}

fn encryption(pairs: &[(String, String)]) -> Result<EncryptionLevel> {
    let asked = pairs.iter().rev().find(|(key, _)| key == "encrypt");
    let asked = asked.map_or("true".to_owned(), |(_, value)| value.to_lowercase());
    match asked.as_str() {
        "false" | "no" | "optional" | "danger_plaintext" if !TLS => {
            Ok(EncryptionLevel::NotSupported)
        }
        "false" | "no" | "optional" => Ok(EncryptionLevel::Off),
        "danger_plaintext" => Ok(EncryptionLevel::NotSupported),
        "true" | "yes" | "mandatory" | "strict" if !TLS => Err(unsupported(
            "TLS: build with the feature rustls or native-tls, or say encrypt=false in the connection string",
        )),
        "true" | "yes" | "mandatory" => Ok(EncryptionLevel::Required),
        "strict" => Ok(EncryptionLevel::Strict),
        _ => Err(invalid("has an unknown value for encrypt")),
    }
}

fn from_ado(text: &str) -> Result<ConnectOptions> {
    let pairs = ado_pairs(text);
    let encryption = encryption(&pairs)?;
    // The driver's own message may repeat a part of the text.
    let mut config = Config::from_ado_string(text)
        .map_err(|_| invalid("is neither an ADO string nor a sqlserver:// URL"))?;
    config.encryption(encryption);
    ConnectOptions::of(config).with_timeouts(&pairs)
}

/// The keys and values of an ADO string; a quoted value may hold the separators.
fn ado_pairs(text: &str) -> Vec<(String, String)> {
    let mut parts = vec![String::new()];
    let mut closing = None;
    for letter in text.chars() {
        match (closing, letter) {
            (Some(end), _) if letter == end => closing = None,
            (None, ';') => {
                parts.push(String::new());
                continue;
            }
            (None, '{') => closing = Some('}'),
            (None, '"' | '\'') => closing = Some(letter),
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    let pairs = parts.iter().filter_map(|part| part.split_once('='));
    pairs
        .map(|(key, value)| (normal(key), value.trim().to_owned()))
        .collect()
}

fn from_url(rest: &str) -> Result<ConnectOptions> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = place.split_once('/').unwrap_or((place, ""));
    let (login, server) = authority.rsplit_once('@').unwrap_or(("", authority));
    let pairs = url_pairs(query)?;
    let mut config = Config::new();
    let (host, port) = host_and_port(server)?;
    config.host(host);
    config.port(port);
    if !login.is_empty() {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        config.authentication(AuthMethod::sql_server(decoded(user)?, decoded(password)?));
    }
    if !database.is_empty() {
        config.database(decoded(database)?);
    }
    config.encryption(encryption(&pairs)?);
    let has = |name: &str| pairs.iter().any(|(key, _)| key == name);
    // The driver panics on both.
    if has("trustservercertificate") && has("trustservercertificateca") {
        return Err(invalid(
            "trusts both any certificate and those of an authority; choose one",
        ));
    }
    for (key, value) in &pairs {
        match (key.as_str(), value.as_str()) {
            ("trustservercertificate", "true" | "yes") => config.trust_cert(),
            ("trustservercertificateca", file) => config.trust_cert_ca(file),
            ("applicationname", name) => config.application_name(name),
            ("hostnameincertificate", name) => config.hostname_in_certificate(name),
            ("trustservercertificate", _) | ("encrypt", _) => {}
            ("connecttimeout" | "connectiontimeout" | "commandtimeout" | "locktimeout", _) => {}
            _ => return Err(invalid("has an unknown parameter")),
        }
    }
    ConnectOptions::of(config).with_timeouts(&pairs)
}

fn host_and_port(server: &str) -> Result<(&str, u16)> {
    let (host, port) = match server.strip_prefix('[') {
        Some(rest) => rest
            .split_once(']')
            .map(|(host, port)| (host, port.strip_prefix(':')))
            .ok_or_else(|| invalid("has an address without its closing bracket"))?,
        None => server
            .split_once(':')
            .map_or((server, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(invalid("has no host"));
    }
    let port = port.map_or(Ok(1433), str::parse);
    Ok((
        host,
        port.map_err(|_| invalid("has a port that is no number"))?,
    ))
}

fn url_pairs(query: &str) -> Result<Vec<(String, String)>> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        Ok((normal(&decoded(key)?), decoded(value)?))
    };
    parts.map(pair).collect()
}

/// The text with its percent-encoding undone.
fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
            let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
                return Err(invalid("has a % that two hexadecimal digits do not follow"));
            };
            bytes.extend(u8::try_from(high * 16 + low));
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| invalid("is not UTF-8 once decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_and_an_ado_string_name_the_same_server() {
        let url = "mssql://app:p%40ss%3Bword@db.example:1444/shop?encrypt=false&lock_timeout=3";
        let ado = "Server=tcp:db.example,1444;Database=shop;User Id=app;Password='p@ss;word';Encrypt=false;Lock Timeout=3";
        for text in [url, ado] {
            let options = ConnectOptions::parse(text).unwrap();
            assert_eq!(options.address(), "db.example:1444");
            assert_eq!(options.lock_timeout, Duration::from_secs(3));
        }
    }

    #[test]
    fn timeouts_have_defaults_and_are_read_from_either_form() {
        let plain = ConnectOptions::parse("sqlserver://host/db?encrypt=false").unwrap();
        assert_eq!(
            plain.config.get_command_timeout(),
            Some(Duration::from_secs(30))
        );
        assert_eq!(
            plain.config.get_handshake_timeout(),
            Some(Duration::from_secs(15))
        );
        let ado = "server=host;encrypt=false;Connect Timeout=4;Command Timeout=5";
        let set = ConnectOptions::parse(ado).unwrap();
        assert_eq!(
            set.config.get_handshake_timeout(),
            Some(Duration::from_secs(4))
        );
        assert_eq!(
            set.config.get_command_timeout(),
            Some(Duration::from_secs(5))
        );
        assert!(ConnectOptions::parse("server=h;encrypt=false;Command Timeout=soon").is_err());
    }

    #[test]
    fn a_broken_string_is_refused_without_repeating_it() {
        for text in [
            "sqlserver://app:hunter2@/db?encrypt=false",
            "sqlserver://app:hunter2@host:port/db?encrypt=false",
            "sqlserver://app:hunter2%zz@host/db?encrypt=false",
            "sqlserver://app:hunter2@host/db?encrypt=false&hunter2=1",
            "sqlserver://app:hunter2@[::1/db?encrypt=false",
            "server=host;password='hunter2;encrypt=false",
            "sqlserver://app:hunter2@host/db?encrypt=maybe",
        ] {
            let refused = ConnectOptions::parse(text).unwrap_err();
            assert!(
                !format!("{refused} {refused:?}").contains("hunter2"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_bracketed_address_may_have_a_port() {
        assert_eq!(host_and_port("[::1]:1444").unwrap(), ("::1", 1444));
        assert_eq!(host_and_port("[::1]").unwrap(), ("::1", 1433));
    }

    #[cfg(not(any(feature = "rustls", feature = "native-tls")))]
    #[test]
    fn a_build_without_tls_refuses_to_send_a_password_in_the_clear_unasked() {
        for text in [
            "server=host;user=a;password=b",
            "sqlserver://a:b@host/db",
            "mssql://host?encrypt=strict",
        ] {
            assert_eq!(
                ConnectOptions::parse(text).unwrap_err().kind(),
                "unsupported",
                "{text}"
            );
        }
    }

    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    #[test]
    fn a_build_with_tls_encrypts_unless_told_otherwise() {
        assert_eq!(encryption(&[]).unwrap(), EncryptionLevel::Required);
        let off = [("encrypt".to_owned(), "false".to_owned())];
        assert_eq!(encryption(&off).unwrap(), EncryptionLevel::Off);
    }
}
