//! Reads the configuration again while the broker serves.

use std::fs;
use std::path::Path;

use tokio::task::spawn_blocking;

use crate::config::{Config, ServeArgs};

/// Reads the files that the arguments name. Outside the runtime's threads: file systems may block.
///
/// # Errors
/// The text of a [`crate::config::ConfigError`], or that a file should not be read again.
pub(super) async fn configuration(args: ServeArgs) -> Result<Config, String> {
    let read = move || {
        [args.config.as_deref(), args.emulator.file()].into_iter().flatten().try_for_each(check)?;
        Config::resolve(args).map_err(|error| error.to_string())
    };
    spawn_blocking(read).await.map_err(|_| "reading the configuration failed; see the log")?
}

/// Refuses a file without text: it would remove all settings, keys among them. The read reports a missing file and a directory.
fn check(file: &Path) -> Result<(), String> {
    let name = file.display();
    match fs::metadata(file) {
        Ok(found) if !found.is_file() && !found.is_dir() => Err(format!(
            "\"{name}\" is a pipe or a device, which can be read only once; put the configuration in a file"
        )),
        Ok(found) if found.len() == 0 => Err(format!(
            "\"{name}\" is empty; send the signal again once it is written, or put a comment in it to remove all settings"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_and_an_empty_file_are_not_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("peeklock.toml");
        assert_eq!(check(&file), Ok(()), "a missing file is reported by the read");
        fs::write(&file, "").unwrap();
        assert!(check(&file).unwrap_err().contains("is empty"));
        fs::write(&file, "# nothing").unwrap();
        assert_eq!(check(&file), Ok(()));
        assert!(check(Path::new("/dev/null")).unwrap_err().contains("only once"));
    }
}
