//! The process: whether it is ready, its damage, memory, descriptors, CPU and tasks.

use std::fmt;
use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use peeklock_budget::{Budget, Owner};
use peeklock_engine::runtime::Namespace;
use peeklock_metrics::{Family, Page, Source, Unit};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use tokio::runtime::Handle;

use crate::serve::health::{Health, State};

const READY: Family =
    Family::gauge("peeklock_ready", Unit::None, "Whether connections are accepted and the store works.");
/// The commit that a release was built from, set by the release script.
const REVISION: &str = match option_env!("PEEKLOCK_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

const BUILD_INFO: Family =
    Family::gauge("peeklock_build_info", Unit::None, "1, with version and revision as labels.");
const DAMAGE: Family = Family::gauge(
    "peeklock_damage",
    Unit::None,
    "Damaged places of the store that were found since the start.",
);
const QUARANTINED: Family = Family::gauge(
    "peeklock_quarantined_messages",
    Unit::None,
    "Messages in quarantine: not delivered, because their stored data is damaged.",
);
const MEMORY_LIMIT: Family = Family::gauge(
    "peeklock_memory_limit_bytes",
    Unit::Bytes,
    "Memory that clients can make the broker hold (limits.memory_max).",
);
const MEMORY_USED: Family =
    Family::gauge("peeklock_memory_used_bytes", Unit::Bytes, "Memory used of that limit, by purpose.");
const STATE_MEMORY: Family = Family::gauge(
    "peeklock_state_memory_bytes",
    Unit::Bytes,
    "Memory of the process apart from messages under way: the state of everything stored.",
);
const STATE_MEMORY_LIMIT: Family = Family::gauge(
    "peeklock_state_memory_limit_bytes",
    Unit::Bytes,
    "Limit of that memory, beyond which sends are refused (limits.state_memory_max).",
);
const STATE_MEMORY_FULL: Family = Family::gauge(
    "peeklock_state_memory_full",
    Unit::None,
    "1 while sends are refused because that limit is reached.",
);
const TASKS: Family = Family::gauge("peeklock_tasks", Unit::None, "Asynchronous tasks alive.");
const OPEN_FDS: Family = Family::gauge("process_open_fds", Unit::None, "Open file descriptors.");
const MAX_FDS: Family = Family::gauge("process_max_fds", Unit::None, "Limit of open file descriptors.");
const RESIDENT: Family =
    Family::gauge("process_resident_memory_bytes", Unit::Bytes, "Memory of the process that is resident.");
const CPU: Family = Family::counter(
    "process_cpu_seconds",
    Unit::Seconds,
    "CPU time of the process, in user and system mode.",
);
const STARTED_AT: Family =
    Family::gauge("process_start_time_seconds", Unit::Seconds, "When the process started, since the epoch.");

/// The metrics' source; see the module.
pub(super) struct Process(pub(super) Health);

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Process").finish_non_exhaustive()
    }
}

impl Source for Process {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.one(&READY, u8::from(self.0.state() == State::Ready))?;
        page.info(&BUILD_INFO, [("version", env!("CARGO_PKG_VERSION")), ("revision", REVISION)])?;
        if let Some(namespace) = self.0.namespace() {
            damage(&namespace, page)?;
            memory(namespace.budget(), page)?;
        }
        if let Ok(runtime) = Handle::try_current() {
            page.one(&TASKS, runtime.metrics().num_alive_tasks())?;
        }
        descriptors(page)?;
        resources(page)
    }
}

fn damage(namespace: &Namespace, page: &mut Page<'_>) -> fmt::Result {
    page.one(&DAMAGE, namespace.damage_count())?;
    page.one(&QUARANTINED, namespace.quarantined_count())
}

fn memory(budget: &Budget, page: &mut Page<'_>) -> fmt::Result {
    page.one(&MEMORY_LIMIT, budget.limit_bytes())?;
    let owners = Owner::ALL.into_iter().map(|owner| ([("owner", owner.name())], budget.used_by(owner)));
    page.each(&MEMORY_USED, owners)?;
    let state = budget.state();
    page.one(&STATE_MEMORY, state.measured_bytes())?;
    page.one(&STATE_MEMORY_LIMIT, state.limit_bytes())?;
    page.one(&STATE_MEMORY_FULL, u8::from(state.is_full()))
}

/// With the names that Prometheus's own client libraries use. Omitted where the system has no figures.
fn descriptors(page: &mut Page<'_>) -> fmt::Result {
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        page.one(&OPEN_FDS, open.count())?;
    }
    getrlimit(Resource::Nofile).current.map_or(Ok(()), |limit| page.one(&MAX_FDS, limit))
}

fn resources(page: &mut Page<'_>) -> fmt::Result {
    if let Some(bytes) = fs::read_to_string("/proc/self/statm").ok().and_then(|text| resident_bytes(&text)) {
        page.one(&RESIDENT, bytes)?;
    }
    if let Some(ticks) = fs::read_to_string("/proc/self/stat").ok().and_then(|text| cpu_ticks(&text)) {
        page.one(&CPU, float(ticks) / float(clock_ticks_per_second()))?;
    }
    page.one(&STARTED_AT, started_at_seconds())
}

/// Resident memory from the second field, which is in pages.
fn resident_bytes(statm: &str) -> Option<u64> {
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(page_size() as u64))
}

/// User and system time, the 14th and 15th fields. The second field is a name in parentheses, which may contain
/// anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user.saturating_add(system))
}

/// The time of the first call, which is early in the life of a process.
fn started_at_seconds() -> f64 {
    static STARTED_AT_SECONDS: OnceLock<f64> = OnceLock::new();
    *STARTED_AT_SECONDS
        .get_or_init(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()))
}

#[expect(clippy::cast_precision_loss, reason = "2⁵³ ticks are beyond the life of any machine")]
fn float(ticks: u64) -> f64 {
    ticks as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_is_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 12 30 0 0 20 0 5 0 100 1 2";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("7 (a"), None);
        assert_eq!(resident_bytes("100 2 1 1 0 1 0"), Some(2 * page_size() as u64));
    }
}
