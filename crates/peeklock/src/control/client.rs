//! The client of the control socket: requests of a command to the broker.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use peeklock_storage::local::BackupPlan;

use super::{Answer, Request, SocketPath, line};

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Longest answer: the plan of some ten million segments.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// How often a working client reports to the broker.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// A connection to a running broker.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
    reported_at: Instant,
}

impl Client {
    /// Connects to the broker that uses `data_dir`; `None` when no broker answers there.
    ///
    /// # Errors
    /// Other errors of the operating system.
    pub(crate) fn connect(data_dir: &Path) -> io::Result<Option<Self>> {
        let connected = SocketPath::of(data_dir).and_then(|socket| UnixStream::connect(&socket.path));
        let stream = match connected {
            Ok(stream) => stream,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::ConnectionRefused => Ok(None),
                    _ => Err(error),
                };
            }
        };
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(Some(Self { stream: BufReader::new(stream), reported_at: Instant::now() }))
    }

    /// Requests a plan, whose files the broker keeps as long as this client lives; also returns the free bytes that the
    /// broker needs.
    ///
    /// # Errors
    /// The broker's refusal, or why it did not answer.
    pub(crate) fn backup(&mut self) -> io::Result<(BackupPlan, u64)> {
        self.send(&Request::Backup)?;
        match self.answer()? {
            Answer::Plan { plan, reserve_bytes } => {
                let plan = STANDARD.decode(plan).ok().and_then(|bytes| BackupPlan::decode(&bytes));
                plan.map(|plan| (plan, reserve_bytes)).ok_or_else(|| other("the plan is of another version"))
            }
            Answer::Finished => Err(other("an unexpected answer")),
            Answer::Refused { reason } => Err(other(&reason)),
        }
    }

    /// Reports progress to the broker, at most once a second.
    ///
    /// # Errors
    /// The connection to the broker has ended.
    pub(crate) fn progress(&mut self, text: impl FnOnce() -> String) -> io::Result<()> {
        if self.reported_at.elapsed() < PROGRESS_INTERVAL {
            return Ok(());
        }
        self.reported_at = Instant::now();
        self.send(&Request::Progress { text: text() })
    }

    /// Asks whether the files of the plan were kept all the time.
    ///
    /// # Errors
    /// They were not, or the connection to the broker has ended.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.send(&Request::Finish)?;
        match self.answer()? {
            Answer::Finished => Ok(()),
            Answer::Plan { .. } => Err(other("an unexpected answer")),
            Answer::Refused { reason } => Err(other(&reason)),
        }
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        self.stream.get_mut().write_all(&line(request)?)
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let mut text = Vec::new();
        (&mut self.stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut text)?;
        if text.is_empty() {
            return Err(other("the broker ended the connection"));
        }
        Ok(serde_json::from_slice(&text)?)
    }
}

fn other(reason: &str) -> io::Error {
    io::Error::other(reason.to_owned())
}
