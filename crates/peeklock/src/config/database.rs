//! The address of a replicated store: the URL of PostgreSQL, whose password appears in no message.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use peeklock_engine::Secret;
use peeklock_postgres::{DatabaseOptions, OptionsError, URL_SCHEMES};

/// The kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StorageEngine {
    /// Files on this machine.
    #[default]
    Local,
    /// PostgreSQL.
    Postgres,
}

impl FromStr for StorageEngine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "local" => Ok(Self::Local),
            "postgres" => Ok(Self::Postgres),
            _ => Err(format!("\"{text}\" is not an engine; write \"local\" or \"postgres\"")),
        }
    }
}

/// What makes a second copy of the data that PostgreSQL acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Durability {
    /// A synchronous standby of PostgreSQL, without which the broker does not serve.
    #[default]
    Standby,
    /// The PostgreSQL service itself, below the database.
    Service,
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "standby" => Ok(Self::Standby),
            "service" => Ok(Self::Service),
            _ => Err(format!(
                "\"{text}\" is not a durability; write \"standby\", or \"service\" if the database service replicates its storage in another way"
            )),
        }
    }
}

/// The URL of a database. It may contain a password, so it is displayed without one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DatabaseUrl {
    url: Secret,
    /// The file that contains it (`url_file`).
    file: Option<PathBuf>,
}

const EXAMPLE: &str = "\"postgres://peeklock@pg-1,pg-2,pg-3/peeklock?target_session_attrs=read-write\"";

impl DatabaseUrl {
    /// Whether a text is meant as a URL of a database.
    pub(crate) fn is_like(text: &str) -> bool {
        URL_SCHEMES.iter().any(|scheme| text.starts_with(scheme))
    }

    /// The URL with the password, for the connection.
    pub(crate) fn expose(&self) -> &str {
        self.url.expose()
    }

    /// Sets the file that contains it.
    pub(super) fn in_file(self, path: PathBuf) -> Self {
        Self { file: Some(path), ..self }
    }

    /// The options of the connection.
    ///
    /// # Errors
    /// [`OptionsError`], without the URL in it.
    pub(crate) fn options(&self) -> Result<DatabaseOptions, OptionsError> {
        let options = DatabaseOptions::parse(self.expose())?;
        Ok(match &self.file {
            Some(path) => {
                let path = path.clone();
                options.with_url_source(move || fs::read_to_string(&path))
            }
            None => options,
        })
    }
}

impl FromStr for DatabaseUrl {
    type Err = String;

    /// Error messages do not contain the text.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !Self::is_like(text) {
            return Err(format!("is not the URL of a database; write {EXAMPLE} or the like"));
        }
        DatabaseOptions::parse(text).map_err(|error| format!("can't be used: {error}"))?;
        Ok(Self { url: Secret::new(text), file: None })
    }
}

/// Without password and parameters. A password with an unescaped "@" is not displayed either.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.expose();
        let rest = URL_SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or_default();
        let (credentials, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let user = credentials.split(':').next().unwrap_or_default();
        let place = place.split('?').next().unwrap_or_default();
        match user {
            "" => write!(formatter, "postgres://{place}"),
            user => write!(formatter, "postgres://{user}@{place}"),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password_and_parameters() {
        for (text, shown) in [
            ("postgres://u:secret@a,b:5433/d?password=secret", "postgres://u@a,b:5433/d"),
            ("postgresql://u@a/d", "postgres://u@a/d"),
            ("postgres://a/d?user=u&password=secret", "postgres://a/d"),
            ("postgres://u:se%40cr%2Fet@a/d", "postgres://u@a/d"),
        ] {
            let url: DatabaseUrl = text.parse().unwrap();
            assert_eq!((url.to_string(), format!("{url:?}")), (shown.to_owned(), shown.to_owned()));
            assert_eq!(url.expose(), text);
        }
        for unescaped in ["postgres://u:se@cr/et@a/d", "postgres://u:se?cr@et@a/d"] {
            let url = DatabaseUrl { url: Secret::new(unescaped), file: None };
            assert_eq!(url.to_string(), "postgres://u@a/d");
        }
    }

    #[test]
    fn invalid_urls_are_refused_without_showing_them() {
        for text in [
            "",
            "secret",
            "mysql://u:secret@h/d",
            "host=secret",
            "postgres://u:se cret@h/d",
            "postgres://u:secret@h/d?sslmode=x",
        ] {
            let error = text.parse::<DatabaseUrl>().unwrap_err();
            assert!(!error.contains("secret") && !error.contains("cret@"), "{error}");
        }
    }
}
