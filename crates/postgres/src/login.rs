//! User and password of the connections, which may change while the process runs.

use std::sync::{Mutex, PoisonError};

use tokio_postgres::Config;

use crate::noted::Noted;
use crate::options::{DatabaseOptions, UrlSource};

/// Why a changed URL is not used as a whole. Connections to two databases at once would be a split store.
const LOGIN_ONLY: &str = "only user and password are read again; the rest takes effect at the next start";

/// User and password of a URL. Each connection uses those that its source has then, as with certificates: a password may be
/// rotated several times while the process runs.
pub(crate) struct Login(Mutex<State>);

struct State {
    /// With the last usable user and password.
    config: Config,
    problem: Noted,
}

impl Login {
    pub(crate) fn new(options: &DatabaseOptions) -> Self {
        Self(Mutex::new(State { config: options.config.clone(), problem: Noted::default() }))
    }

    /// The options of the next connection: those of the start with the present user and password, or with the last
    /// usable ones if the URL can't be used now.
    pub(crate) fn config(&self, options: &DatabaseOptions) -> Config {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = &options.url_source {
            let problem = match read(source) {
                Ok(read) => {
                    state.config = with_login_of(&options.config, &read.config);
                    let is_same = state.config == read.config && options.tls == read.tls;
                    (!is_same).then(|| LOGIN_ONLY.to_owned())
                }
                Err(problem) => Some(problem),
            };
            if let Some(problem) = state.problem.note(problem) {
                tracing::warn!(problem, "the changed URL of the database can't be used as a whole");
            }
        }
        state.config.clone()
    }
}

fn read(source: &UrlSource) -> Result<DatabaseOptions, String> {
    let text = source().map_err(|error| format!("it can't be read: {error}"))?;
    DatabaseOptions::parse(text.trim_end()).map_err(|error| error.to_string())
}

/// `config` with the user and the password that `read` has.
fn with_login_of(config: &Config, read: &Config) -> Config {
    let mut config = config.clone();
    if let Some(user) = read.get_user() {
        config.user(user);
    }
    if let Some(password) = read.get_password() {
        config.password(password);
    }
    config
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_changed_url_gives_user_and_password_and_nothing_else() {
        let text = Arc::new(Mutex::new(Some(String::new())));
        let source = Arc::clone(&text);
        let read = move || source.lock().unwrap().clone().ok_or_else(|| io::ErrorKind::NotFound.into());
        let options = DatabaseOptions::parse("postgres://app:old@h/d").unwrap().with_url_source(read);
        let login = Login::new(&options);
        let check = |url: Option<&str>, user: &str, password: &str, problem: &str| {
            *text.lock().unwrap() = url.map(ToOwned::to_owned);
            let config = login.config(&options);
            assert_eq!(config.get_user(), Some(user), "{url:?}");
            assert_eq!(config.get_password(), Some(password.as_bytes()), "{url:?}");
            assert_eq!((config.get_dbname(), config.get_hosts()), (Some("d"), options.config.get_hosts()));
            let found = login.0.lock().unwrap().problem.0.clone().unwrap_or_default();
            assert!(found.contains(problem) && found.is_empty() == problem.is_empty(), "{url:?}: {found}");
            assert!(!found.contains("secret"), "{found}");
        };
        check(None, "app", "old", "can't be read");
        check(Some("postgres://app:new@h/d\n"), "app", "new", "");
        check(Some(""), "app", "new", "must begin with postgres://");
        check(Some("postgres://app:se cret@h/d"), "app", "new", "has spaces");
        check(Some("postgres://app:newer@h/d"), "app", "newer", "");
        check(Some("postgres://b:newest@other/d"), "b", "newest", "only user and password");
        check(Some("postgres://b:last@h/d?sslmode=require"), "b", "last", "only user and password");
        check(Some("postgres://b:last@h/d"), "b", "last", "");
        check(None, "b", "last", "can't be read");
    }
}
