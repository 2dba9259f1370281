//! The broker's side of the control socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use peeklock_storage::Error;
use peeklock_storage::local::PinnedPlan;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

use super::{Answer, NAME, Request, SILENCE_MAX, SocketPath, line};

/// Maximum number of clients.
const CLIENTS_MAX: usize = 4;
/// Longest line of a client, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// Creates a plan; blocks.
type Pin = Arc<dyn Fn() -> Result<PinnedPlan, Error> + Send + Sync>;

/// The control socket, until dropped.
pub(crate) struct Control {
    task: JoinHandle<()>,
    path: PathBuf,
}

impl Control {
    /// Listens in `data_dir`, which this process has locked. Without a socket the broker still runs, but can be backed
    /// up only when stopped.
    pub(crate) fn start(
        data_dir: &Path,
        reserve_bytes: u64,
        pin: impl Fn() -> Result<PinnedPlan, Error> + Send + Sync + 'static,
    ) -> Option<Self> {
        let path = data_dir.join(NAME);
        match bind(data_dir, &path) {
            Ok(listener) => {
                let task = tokio::spawn(accept(listener, Arc::new(pin), reserve_bytes));
                Some(Self { task, path })
            }
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "no control socket: `store backup` needs the broker stopped");
                None
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
        // If this fails, the next broker removes the socket.
        let _ = fs::remove_file(&self.path);
    }
}

fn bind(data_dir: &Path, path: &Path) -> io::Result<UnixListener> {
    // This process holds the lock, so an existing socket belongs to a broker that has ended.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(SocketPath::of(data_dir)?.path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn accept(listener: UnixListener, pin: Pin, reserve_bytes: u64) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    // Dropped with this task, and with it every plan.
    let mut clients = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while clients.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) if is_trusted(&stream) => {
                let pin = Arc::clone(&pin);
                clients.spawn(async move {
                    serve(stream, pin, reserve_bytes).await;
                    drop(place);
                });
            }
            Ok(_) => tracing::warn!("another user connected to the control socket and was disconnected"),
            Err(error) => {
                tracing::warn!(%error, "the control socket accepts no connections for a while");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        }
    }
}

/// Whether the peer is this user or the superuser: the mode of a socket is set only after it is bound.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn serve(stream: UnixStream, pin: Pin, reserve_bytes: u64) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let Some(Request::Backup) = next(&mut reader).await else { return };
    let pinned = spawn_blocking(move || pin()).await;
    let pinned = match pinned {
        Ok(Ok(pinned)) => pinned,
        Ok(Err(error)) => return refuse(&mut writer, &error.to_string()).await,
        Err(error) => return refuse(&mut writer, &error.to_string()).await,
    };
    let segments = pinned.plan().segments();
    tracing::info!(segments, bytes = pinned.plan().bytes(), "a backup begins");
    let plan = STANDARD.encode(pinned.plan().encode());
    if !send(&mut writer, &Answer::Plan { plan, reserve_bytes }).await {
        return;
    }
    match client_finishes(&mut reader).await {
        true => {
            tracing::info!(segments, "the backup is finished");
            send(&mut writer, &Answer::Finished).await;
        }
        false => tracing::warn!(segments, "the backup was aborted"),
    }
    drop(pinned);
}

/// Waits for the end of the backup; false if the client disconnects, or is silent for too long, before it finishes.
async fn client_finishes(reader: &mut BufReader<OwnedReadHalf>) -> bool {
    loop {
        match next(reader).await {
            Some(Request::Progress { text }) => tracing::debug!(text, "a backup continues"),
            Some(Request::Finish) => return true,
            Some(Request::Backup) | None => return false,
        }
    }
}

/// The next request; `None` at the end, or for an invalid one.
async fn next(reader: &mut BufReader<OwnedReadHalf>) -> Option<Request> {
    let mut text = Vec::new();
    let mut bounded = reader.take(LINE_BYTES_MAX);
    let read = tokio::time::timeout(SILENCE_MAX, bounded.read_until(b'\n', &mut text)).await;
    read.ok()?.ok()?;
    serde_json::from_slice(&text).ok()
}

async fn refuse(writer: &mut OwnedWriteHalf, reason: &str) {
    tracing::warn!(reason, "no backup can be made");
    send(writer, &Answer::Refused { reason: reason.to_owned() }).await;
}

/// False when the client has disconnected.
async fn send(writer: &mut OwnedWriteHalf, answer: &Answer) -> bool {
    let Ok(bytes) = line(answer) else { return false };
    matches!(tokio::time::timeout(SILENCE_MAX, writer.write_all(&bytes)).await, Ok(Ok(())))
}
