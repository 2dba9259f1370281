//! File descriptors for files and sockets: the system's limit, and its use.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for segments and listeners, so that connections never starve the log.
const RESERVED: u64 = 512;
/// Divisor: unauthenticated connections get at most this part of the rest.
const UNAUTHENTICATED_PART: u64 = 4;

/// Numbers of connections that the system's limit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// Maximum number of authenticated connections.
    pub(super) connections_max: u64,
    /// Maximum number of unauthenticated connections in addition.
    pub(super) unauthenticated_max: u64,
}

impl Room {
    /// Raises the soft limit of file descriptors to the hard one, and returns how many of the configured connections
    /// fit.
    pub(super) fn within_limits(connections_max: u64, unauthenticated_max: u64) -> Self {
        let asked = Self { connections_max, unauthenticated_max };
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let available = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit.maximum,
            Err(_) => limit.current,
        };
        let fitting = asked.within(available);
        if fitting != asked {
            tracing::warn!(
                connections_max,
                unauthenticated_max,
                "the system allows {} open files: at most {} connections are accepted, and {} unauthenticated (see `ulimit -Hn`)",
                available.unwrap_or(u64::MAX),
                fitting.connections_max,
                fitting.unauthenticated_max,
            );
        }
        fitting
    }

    /// `None` means no limit.
    fn within(self, available: Option<u64>) -> Self {
        let Some(files) = available else { return self };
        let left = files.saturating_sub(RESERVED);
        let unauthenticated_max = self.unauthenticated_max.min(left / UNAUTHENTICATED_PART).max(1);
        let connections_max = self.connections_max.min(left.saturating_sub(unauthenticated_max)).max(1);
        Self { connections_max, unauthenticated_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_log() {
        let room = |connections_max, unauthenticated_max| Room { connections_max, unauthenticated_max };
        let asked = room(10_000, 4_096);
        assert_eq!(asked.within(None), asked);
        assert_eq!(asked.within(Some(1 << 20)), asked);
        assert_eq!(asked.within(Some(1_024)), room(384, 128));
        assert_eq!(asked.within(Some(256)), room(1, 1));
    }
}
