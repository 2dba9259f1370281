//! Reads the configuration again while the broker serves.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use tokio::task::spawn_blocking;

use crate::config::{Config, ServeArgs};

/// A configuration that was read again.
pub(super) struct Reread {
    /// The configuration.
    pub(super) config: Config,
    /// Why it must not replace keys: a file without text, which is probably being written.
    pub(super) doubt: Option<String>,
}

/// Reads the files that the arguments name. Outside the runtime's threads: file systems may block.
///
/// # Errors
/// The text of a [`crate::config::ConfigError`], or that a file is a pipe.
pub(super) async fn configuration(args: ServeArgs) -> Result<Reread, String> {
    let read = move || {
        let mut doubt = None;
        for file in [args.config.as_deref(), args.emulator.file()].into_iter().flatten() {
            doubt = doubt.or(check(file)?);
        }
        Ok(Reread { config: Config::resolve(args).map_err(|error| error.to_string())?, doubt })
    };
    spawn_blocking(read).await.map_err(|_| "reading the configuration failed; see the log")?
}

/// Refuses a pipe, whose text has been read, and returns a doubt about an empty file. The read reports a missing file.
fn check(file: &Path) -> Result<Option<String>, String> {
    let name = file.display();
    match fs::metadata(file) {
        Ok(found) if found.file_type().is_fifo() => {
            Err(format!("\"{name}\" is a pipe, which can be read only once; put the configuration in a file"))
        }
        Ok(found) if !found.is_dir() && found.len() == 0 => Ok(Some(format!(
            "\"{name}\" is empty, which would replace the keys in force; send the signal again once it is written, or put a \
             comment in it"
        ))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_in_doubt() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("peeklock.toml");
        assert_eq!(check(&file), Ok(None), "a missing file is reported by the read");
        assert_eq!(check(directory.path()), Ok(None), "as is a directory");
        fs::write(&file, "").unwrap();
        assert!(check(&file).unwrap().unwrap().contains("is empty"));
        fs::write(&file, "# nothing").unwrap();
        assert_eq!(check(&file), Ok(None));
    }
}
