//! User and password of the connections, which may change while the process runs.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio_postgres::Config;

use crate::options::{DatabaseOptions, OptionsError};

/// Why a changed URL is not used as a whole. Connections to two databases at once would be a split store.
const LOGIN_ONLY: &str = "only user and password are read again; the rest takes effect at the next start";

/// User and password of a URL in a file. Each connection uses those that the file has then, as with certificates: a
/// password may be rotated several times while the process runs.
pub(crate) struct Login(Mutex<State>);

struct State {
    /// With the last usable user and password.
    config: Config,
    /// What was last wrong with the file; logged when it changes.
    problem: Option<String>,
}

impl Login {
    pub(crate) fn new(options: &DatabaseOptions) -> Self {
        Self(Mutex::new(State { config: options.config.clone(), problem: None }))
    }

    /// The options of the next connection: those of the start with the present user and password of the file, or with
    /// the last usable ones if the file can't be used now.
    pub(crate) fn config(&self, options: &DatabaseOptions) -> Config {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = &options.url_file {
            let problem = match read(path) {
                Ok(read) => {
                    state.config = with_login_of(&options.config, &read.config);
                    let is_same = state.config == read.config && options.tls == read.tls;
                    (!is_same).then(|| LOGIN_ONLY.to_owned())
                }
                Err(error) => Some(error.to_string()),
            };
            state.note(path, problem);
        }
        state.config.clone()
    }
}

impl State {
    fn note(&mut self, path: &Path, problem: Option<String>) {
        if let Some(problem) = &problem
            && self.problem.as_ref() != Some(problem)
        {
            tracing::warn!(file = %path.display(), problem, "the changed URL of the database can't be used as a whole");
        }
        self.problem = problem;
    }
}

fn read(path: &Path) -> Result<DatabaseOptions, OptionsError> {
    let unusable = |reason: String, unread| OptionsError::File {
        parameter: "url_file",
        path: path.to_owned(),
        reason,
        unread,
    };
    let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string(), Some(error.kind())))?;
    DatabaseOptions::parse(text.trim_end()).map_err(|error| unusable(error.to_string(), None))
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
    use super::*;

    #[test]
    fn a_changed_file_gives_user_and_password_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        let options = DatabaseOptions::parse("postgres://app:old@h/d").unwrap().with_url_file(path.clone());
        let login = Login::new(&options);
        let check = |text: &str, user: &str, password: &str, problem: &str| {
            fs::write(&path, text).unwrap();
            let config = login.config(&options);
            assert_eq!(config.get_user(), Some(user), "{text}");
            assert_eq!(config.get_password(), Some(password.as_bytes()), "{text}");
            assert_eq!((config.get_dbname(), config.get_hosts()), (Some("d"), options.config.get_hosts()));
            let found = login.0.lock().unwrap().problem.clone().unwrap_or_default();
            assert!(found.contains(problem) && found.is_empty() == problem.is_empty(), "{text}: {found}");
            assert!(!found.contains("secret"), "{found}");
        };
        check("postgres://app:new@h/d\n", "app", "new", "");
        check("", "app", "new", "must begin with postgres://");
        check("postgres://app:se cret@h/d", "app", "new", "has spaces");
        check("postgres://app:newer@h/d", "app", "newer", "");
        check("postgres://b:newest@other/d", "b", "newest", "only user and password");
        check("postgres://b:last@h/d?sslmode=require", "b", "last", "only user and password");
        check("postgres://b:last@h/d", "b", "last", "");
    }

    #[test]
    fn a_file_that_is_gone_leaves_the_last_password() {
        let folder = tempfile::tempdir().unwrap();
        let options = DatabaseOptions::parse("postgres://app:old@h/d").unwrap();
        let options = options.with_url_file(folder.path().join("url"));
        let login = Login::new(&options);
        assert_eq!(login.config(&options), options.config);
        assert!(login.0.lock().unwrap().problem.is_some());
    }
}
