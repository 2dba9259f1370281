//! Open files and sockets: as many as the system lets us have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for segments, listeners and HTTP, so that connections never starve the log.
const RESERVED: u64 = 512;

/// Raises the soft limit of file descriptors to the hard one, and says how many of `connections_max` connections fit.
pub(super) fn connections_that_fit(connections_max: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let available = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let fitting = fit(connections_max, available);
    if fitting < connections_max {
        tracing::warn!(
            connections_max,
            "the system allows {} open files: at most {fitting} connections are accepted (see `ulimit -Hn`)",
            available.unwrap_or(u64::MAX),
        );
    }
    fitting
}

/// `None` is no limit.
fn fit(connections_max: u64, available: Option<u64>) -> u64 {
    available.map_or(connections_max, |files| connections_max.min(files.saturating_sub(RESERVED).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_log() {
        assert_eq!(fit(10_000, None), 10_000);
        assert_eq!(fit(10_000, Some(1 << 20)), 10_000);
        assert_eq!(fit(10_000, Some(1_024)), 512);
        assert_eq!(fit(10_000, Some(256)), 1);
    }
}
