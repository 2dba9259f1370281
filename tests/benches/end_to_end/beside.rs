//! Other work of the daemon, concurrent with the messages whose latency is measured.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use peeklock_tests::client::{self, Client};
use peeklock_tests::codec;
use peeklock_tests::daemon::Daemon;
use peeklock_tests::wire::{DISPOSITION, TRANSFER, Wire, delivery_id, is_of_receiver, range};

use crate::load::{Load, Through, send_to};

/// The queues used by that work.
pub(crate) const CONFIG: &str = "[[queues]]\nname = \"churn\"\nlock_duration = \"PT5M\"\n\
    [[queues]]\nname = \"expiring\"\ndefault_message_time_to_live = \"PT20S\"\n";

/// Messages that expire, or that are copied by a backup.
const WAITING: u32 = 1_000_000;
/// Messages of the churn that are under way at a time; one in `STAYS_OF` is never completed.
const CHURN_WINDOW: u32 = 200;
const STAYS_OF: u32 = 100;

/// Concurrent work; see [`crate::cases`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    /// Another client sends and completes, and one message in a hundred remains: segments are mostly garbage.
    Cleaning,
    /// A million messages expire at the same time.
    Expiry,
    /// A backup copies a million messages; it is repeated.
    Backup,
}

impl Beside {
    /// Prepares the daemon for the work.
    pub(crate) fn prepare(self, daemon: &Daemon) {
        let waiting = Load {
            body_bytes: 1024,
            connections: 4,
            through: Through::Queues(1),
            messages: WAITING,
            window: 200,
        };
        match self {
            Self::Nothing | Self::Cleaning => {}
            Self::Expiry => {
                let start = Instant::now();
                send_to(daemon, &waiting, "expiring");
                // The first messages expire in a second or two, and all of them within the measured time.
                std::thread::sleep(Duration::from_secs(19).saturating_sub(start.elapsed()));
            }
            Self::Backup => send_to(daemon, &waiting, "churn"),
        }
    }

    /// Does the work until `is_over`.
    pub(crate) fn go_on(self, binary: &Path, daemon: &Daemon, is_over: &AtomicBool) {
        match self {
            Self::Nothing | Self::Expiry => {}
            Self::Cleaning => churn(daemon, is_over),
            Self::Backup => {
                while !is_over.load(Ordering::Relaxed) {
                    back_up(binary, daemon);
                }
            }
        }
    }
}

fn back_up(binary: &Path, daemon: &Daemon) {
    let directory = tempfile::tempdir().unwrap();
    let done = Command::new(binary)
        .args(["store", "backup", "--copy", "--data-dir"])
        .args([daemon.data_directory(), directory.path().join("backup")])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(done.success(), "the backup failed");
}

/// Sends and completes all messages but a few, on one connection.
fn churn(daemon: &Daemon, is_over: &AtomicBool) {
    let mut client = Client::connect(daemon.amqp()).unwrap();
    client.attach_sender(0, "churn").unwrap().unwrap();
    client.attach_receiver(1, "churn", 0).unwrap().unwrap();
    let message = codec::data_message(&[b'x'; 1024]);
    let mut wire = Wire::new(client.stream());
    let (mut sent, mut accepted, mut received) = (0, 0, 0);
    while !is_over.load(Ordering::Relaxed) {
        wire.put(&codec::frame(0, &client::flow(1, received, CHURN_WINDOW, false, false), &[]));
        while sent - accepted < CHURN_WINDOW {
            wire.put_transfer(sent, &message, false);
            sent += 1;
        }
        wire.flush();
        let mut ids: Vec<u32> = Vec::new();
        wire.read_frames(|code, frame| match code {
            TRANSFER => ids.extend(delivery_id(frame)),
            // Dispositions for the completions are from a sender.
            DISPOSITION if is_of_receiver(frame) => {
                let (first, last) = range(frame);
                accepted += last - first + 1;
            }
            _ => {}
        });
        received += u32::try_from(ids.len()).unwrap();
        ids.iter().filter(|id| *id % STAYS_OF != 0).for_each(|id| wire.complete(*id, *id));
    }
}
