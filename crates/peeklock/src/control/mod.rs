//! The control socket: how `peeklock store backup` reaches the broker that uses a data directory.
//!
//! A Unix socket in the data directory, for the user who may read the data anyway. Both sides write lines of JSON:
//!
//! ```text
//! client                             broker
//! {"command":"backup"}
//!                                    {"answer":"plan","plan":"…","reserve_bytes":268435456}
//! {"command":"progress","text":"…"}  (once a second; nothing is answered)
//! {"command":"finish"}
//!                                    {"answer":"finished"}
//! ```
//! From the plan to the end of the connection no file of the plan is removed or written to. The client links and copies
//! the files itself, so a target without room or rights costs the broker nothing. Instead of any answer there may be
//! `{"answer":"refused","reason":"…"}`.

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
/// Longest path that every system takes for a socket, in bytes; Linux takes 107.
const PATH_BYTES_MAX: usize = 100;
/// A client that says nothing for so long is given up: its plan would keep dead segments for ever.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
enum Request {
    /// Give me a plan and keep its files.
    Backup,
    /// I am still at work.
    Progress {
        /// How far, for the broker's log.
        text: String,
    },
    /// All is written: was the plan kept until now?
    Finish,
}

/// What the broker says.
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
        /// Why, for people.
        reason: String,
    },
}

/// A socket's path as the system takes it, whatever the data directory's length.
#[derive(Debug)]
struct SocketPath {
    path: PathBuf,
    /// Open as long as the path leads through it.
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
