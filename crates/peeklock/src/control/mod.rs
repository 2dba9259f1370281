//! The control socket, through which `peeklock store backup` reaches the broker that uses a data directory.
//!
//! A Unix socket in the data directory, for users who may read the data anyway. Both sides send lines of JSON:
//!
//! ```text
//! client                             broker
//! {"command":"backup"}
//!                                    {"answer":"plan","plan":"…","reserve_bytes":268435456}
//! {"command":"progress","text":"…"}  (once a second; nothing is answered)
//! {"command":"finish"}
//!                                    {"answer":"finished"}
//! ```
//! Between the plan and the end of the connection no file of the plan is removed or written to. The client links and
//! copies the files itself, so a target without space or permissions does not affect the broker. Any answer may be
//! replaced by `{"answer":"refused","reason":"…"}`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod client;
mod server;

pub(crate) use client::Client;
pub(crate) use server::Control;

/// The socket's name inside the data directory.
const NAME: &str = "control.sock";
/// Longest path of a socket that every system accepts, in bytes; Linux accepts 107.
const PATH_BYTES_MAX: usize = 100;
/// A client that sends nothing for this long is disconnected: its plan would keep dead segments forever.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
enum Request {
    /// Requests a plan, whose files are to be kept.
    Backup,
    /// Reports that the client is still working.
    Progress {
        /// The progress, for the broker's log.
        text: String,
    },
    /// Asks whether the files were kept until now; everything is written.
    Finish,
}

/// The broker's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
enum Answer {
    Plan {
        /// [`peeklock_storage::local::BackupPlan`] in base64.
        plan: String,
        /// `storage.reserve` of the broker.
        reserve_bytes: u64,
    },
    Finished,
    Refused {
        /// The reason in human-readable form.
        reason: String,
    },
}

/// A socket's path that the system accepts, whatever the length of the data directory's path.
#[derive(Debug)]
struct SocketPath {
    path: PathBuf,
    /// Kept open as long as the path leads through it.
    _directory: Option<File>,
}

impl SocketPath {
    fn of(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(NAME);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path, _directory: None });
        }
        let directory = File::open(data_dir)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(NAME);
        Ok(Self { path, _directory: Some(directory) })
    }
}

/// One message as a line.
fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}
