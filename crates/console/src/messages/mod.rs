//! Messages: browsing in every state, sending, and dead letters by reason.

mod acting;
mod browsing;
mod dead_letters;
mod filter;
mod moving;
mod sending;
mod shown;

pub(crate) use acting::act;
pub(crate) use browsing::{browse, raw};
pub(crate) use dead_letters::dead_letters;
pub(crate) use sending::{AskedMessage, send};

use std::time::Duration;

use peeklock_admin::Error;
use peeklock_admin::messages::{Place, ask, refused};
use peeklock_engine::runtime::Response as Reply;
use peeklock_engine::{Command, Received, SequenceNumber};
use tokio::time::{Instant, sleep};

/// Maximum number of messages that one request examines.
pub(crate) const EXAMINED_MAX: usize = 1_000;
/// Messages read at a time.
const STEP: usize = 128;
/// Size of messages read at a time, in bytes; the first message is read whatever its size.
const STEP_BYTES_MAX: usize = 1 << 20;

/// A request examines no more messages once evaluating its condition has taken this long.
const TIME_MAX: Duration = Duration::from_millis(500);
/// Time after which a scan lets other tasks of its thread run.
const TURN_MAX: Duration = Duration::from_millis(4);
/// A yield would not do: the runtime looks for arrived bytes only once a thread has nothing to do, or after 61 turns.
const PAUSE: Duration = Duration::from_millis(1);

/// The time that a request spends on examining messages. The client chooses the condition, and so what a message costs.
struct Pace {
    begun: Instant,
    turn: Instant,
}

impl Pace {
    fn start() -> Self {
        let now = Instant::now();
        Self { begun: now, turn: now }
    }

    fn is_over(&self) -> bool {
        self.begun.elapsed() >= TIME_MAX
    }

    /// Called after each message.
    async fn step(&mut self) {
        if self.turn.elapsed() >= TURN_MAX {
            sleep(PAUSE).await;
            self.turn = Instant::now();
        }
    }
}

/// The next messages from a number on, in order, without locking them.
async fn peek(place: &Place, from: u64, count_max: usize) -> Result<Vec<Received>, Error> {
    let command = Command::Peek {
        from: SequenceNumber(from),
        count_max: u32::try_from(count_max).unwrap_or(u32::MAX),
        bytes_max: STEP_BYTES_MAX,
        source: place.source,
        session: None,
    };
    match ask(&place.partition, command).await? {
        Reply::Received(Ok(messages)) => Ok(messages),
        Reply::Received(Err(refusal)) => Err(refused(&refusal)),
        _ => Err(Error::internal()),
    }
}

/// A sequence number in a request.
fn number(name: &str, text: &str) -> Result<u64, Error> {
    text.parse()
        .map_err(|_| Error::bad_request(format!("'{name}' must be a sequence number, as it is shown.")))
}
