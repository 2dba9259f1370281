//! Time-outs: the peer's silence, our own, and missing answers (part 2.4.5).

use super::condition::{self, Fault, error};
use super::connection::{Connection, Phase};
use super::limits::{HEARTBEAT_INTERVAL_MS_MIN, IDLE_TIME_OUT_MS_MIN};
use super::{Config, NowMs};

/// Points in time and intervals of a connection.
#[derive(Debug)]
pub(super) struct Timers {
    /// When bytes were last received.
    pub(super) last_input: NowMs,
    /// When bytes were last sent.
    pub(super) last_output: NowMs,
    /// Silence after which the peer is considered dead.
    pub(super) silence_ms_max: Option<u64>,
    /// The idle-time-out we announce: peers send something at half of it.
    pub(super) announced_idle_ms: Option<u32>,
    /// Our own silence after which a heartbeat is due; known once the peer has opened.
    pub(super) heartbeat_interval_ms: Option<u64>,
    /// When a peer that has not sent its open, or not answered our close, is disconnected.
    pub(super) answer_due: Option<NowMs>,
    /// The driver does not read from the socket, so the peer's silence does not count.
    pub(super) reading_paused: bool,
}

impl Timers {
    pub(super) fn new(config: &Config, now: NowMs) -> Self {
        let announced = config.idle_time_out_ms.map(|ms| u64::from(ms / 2).max(IDLE_TIME_OUT_MS_MIN));
        let silence = config.idle_time_out_ms.zip(announced).map(|(ms, half)| u64::from(ms).max(2 * half));
        Self {
            last_input: now,
            last_output: now,
            silence_ms_max: silence,
            announced_idle_ms: announced.and_then(|ms| u32::try_from(ms).ok()),
            heartbeat_interval_ms: None,
            answer_due: Some(now.saturating_add(config.open_time_out_ms)),
            reading_paused: false,
        }
    }

    /// Applies the idle-time-out of the peer's open.
    ///
    /// # Errors
    /// An idle-time-out too short for heartbeats (part 2.4.5).
    pub(super) fn peer_opened(&mut self, idle_time_out_ms: Option<u32>) -> Result<(), Fault> {
        self.answer_due = None;
        let Some(time_out_ms) = idle_time_out_ms.filter(|&ms| ms > 0) else { return Ok(()) };
        let interval_ms = u64::from(time_out_ms / 2);
        if interval_ms < HEARTBEAT_INTERVAL_MS_MIN {
            let least_ms = 2 * HEARTBEAT_INTERVAL_MS_MIN;
            let reason =
                format!("an idle-time-out of {time_out_ms} ms is not supported: {least_ms} ms is the least");
            return Err(Fault::connection(condition::NOT_ALLOWED, reason));
        }
        self.heartbeat_interval_ms = Some(interval_ms);
        Ok(())
    }

    fn silence_due(&self) -> Option<NowMs> {
        let silence = self.silence_ms_max.filter(|_| !self.reading_paused)?;
        Some(self.last_input.saturating_add(silence))
    }

    fn heartbeat_due(&self) -> Option<NowMs> {
        self.heartbeat_interval_ms.map(|interval| self.last_output.saturating_add(interval))
    }
}

impl Connection {
    /// Sends due heartbeats and closes connections of idle peers. To be called at [`Self::poll_deadline`].
    pub fn handle_timeout(&mut self, now: NowMs) {
        let due = |deadline: Option<NowMs>| deadline.is_some_and(|deadline| deadline <= now);
        if self.phase == Phase::Closed {
            return;
        }
        if due(self.timers.answer_due) {
            self.timers.answer_due = None;
            let waited_for = if self.phase == Phase::Closing { "close" } else { "open" };
            let reason = format!("the peer did not send {waited_for} in time");
            self.fail(error(condition::CONNECTION_FORCED, reason));
        } else if due(self.timers.silence_due()) {
            let silence = self.timers.silence_ms_max.unwrap_or_default();
            let reason = format!("nothing was received for {silence} ms");
            self.fail(error(condition::CONNECTION_FORCED, reason));
        } else if due(self.heartbeat_due()) {
            self.timers.last_output = now;
            self.outbox.heartbeat();
        }
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<NowMs> {
        if self.phase == Phase::Closed {
            return None;
        }
        let deadlines = [self.timers.answer_due, self.timers.silence_due(), self.heartbeat_due()];
        deadlines.into_iter().flatten().min()
    }

    /// When a heartbeat is due; not while frames wait for the socket, because each of them is a sign of life.
    fn heartbeat_due(&self) -> Option<NowMs> {
        self.timers.heartbeat_due().filter(|_| self.outbox.len() == 0)
    }

    /// Records whether the driver reads from the socket: while it does not, the peer's silence does not count.
    pub fn set_reading(&mut self, reading: bool, now: NowMs) {
        if reading && self.timers.reading_paused {
            self.timers.last_input = now;
        }
        self.timers.reading_paused = !reading;
    }
}
