//! SIGTERM and SIGINT: the first requests a graceful stop, the second ends the process at once. SIGHUP requests a
//! reload of the configuration.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::audit::AuditControl;
use crate::exit::Exit;
use crate::logging;

/// Resolves [`Self::stop`] at the first signal.
pub(super) struct Signals {
    stopped: watch::Receiver<bool>,
    audit: Arc<OnceLock<AuditControl>>,
}

impl Signals {
    /// Installs the handlers for the rest of the process; SIGHUP is the second result. Signals that arrive before they
    /// are handled count as one. Requires the context of a runtime.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn install() -> io::Result<(Self, Signal)> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let (stop, stopped) = watch::channel(false);
        let audit = Arc::default();
        tokio::spawn(watch(terminate, interrupt, stop, Arc::clone(&audit)));
        Ok((Self { stopped, audit }, signal(SignalKind::hangup())?))
    }

    /// Lets the second signal wait, for a second at most, until the lines of this audit log are written.
    pub(super) fn set_audit(&self, audit: AuditControl) {
        let _ = self.audit.set(audit);
    }

    /// The result of `starting`, or `None` if a stop is requested before it is there; then it is dropped.
    pub(super) async fn unless_stopped<T>(&mut self, starting: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            started = starting => Some(started),
            () = self.stop() => None,
        }
    }

    /// Resolves when a graceful stop has been requested, now or earlier.
    pub(super) async fn stop(&mut self) {
        // The watching task lives as long as the runtime; an error means that the runtime is being dropped.
        let _ = self.stopped.wait_for(|stop| *stop).await;
    }
}

async fn watch(
    mut terminate: Signal,
    mut interrupt: Signal,
    stop: watch::Sender<bool>,
    audit: Arc<OnceLock<AuditControl>>,
) {
    let name = next(&mut terminate, &mut interrupt).await;
    tracing::info!("{name}: draining; a second signal stops at once");
    stop.send_replace(true);
    let name = next(&mut terminate, &mut interrupt).await;
    tracing::warn!("{name} again: stopping at once; accepted messages are on disk");
    if let Some(audit) = audit.get() {
        audit.flush();
    }
    logging::flush();
    std::process::exit(Exit::Failure as i32);
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
