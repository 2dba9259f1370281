//! How much memory peers may make the process hold.

use std::fs;
use std::path::{Path, PathBuf};

use peeklock_budget::Budget;

use super::error::ServeError;
use crate::config::{Config, LARGEST_PARTS_OF_MEMORY, LimitsConfig};

const MIB: u64 = 1 << 20;

/// Without a setting, the budget is what the process may use, divided by this: the rest is for what is stored about waiting
/// messages, which the budget doesn't cover.
const PART_OF_MACHINE: u64 = 4;

/// The budget without a setting is never more than this: more brings nothing.
const BYTES_MAX: u64 = 1024 * MIB;

/// Nor is it less, without another word about the largest messages.
const BYTES_MIN: u64 = 128 * MIB;

/// Memory of a machine that doesn't say what it has.
const MACHINE_BYTES_UNKNOWN: u64 = 1024 * MIB;

/// While a store opens, what it read and needs again soon may take what the process may use, divided by this: what is kept for
/// good of as many messages takes two to three times as much.
const WARM_PART_OF_MACHINE: u64 = 8;

/// What peers may make the process hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    /// In all, in bytes.
    budget_bytes: u64,
    /// What one connection may hold of partly received messages, in bytes.
    pub(super) reassembly_bytes_max: u64,
}

impl Memory {
    /// What the configuration asks for, or what fits the container or the machine.
    ///
    /// # Errors
    /// An entity of the configuration has larger messages than that allows.
    pub(super) fn of(config: &Config) -> Result<Self, ServeError> {
        let memory = Self::fitting(
            || available_bytes(Path::new("/")),
            config.limits.memory_bytes_max,
            config.amqp.reassembly_bytes_max,
        );
        let Self { budget_bytes, reassembly_bytes_max } = memory;
        tracing::info!(bytes = budget_bytes, reassembly_bytes_max, "memory for messages under way");
        let queues = config.queues.iter().map(|one| ("queue", &one.name, one.options.max_message_size_bytes));
        let topics = config.topics.iter().map(|one| ("topic", &one.name, one.options.max_message_size_bytes));
        let too_large = queues.chain(topics).find(|(.., bytes)| *bytes > reassembly_bytes_max);
        too_large.map_or(Ok(memory), |(kind, name, asked_bytes)| {
            Err(ServeError::Memory {
                kind,
                name: name.to_string(),
                asked_kb: asked_bytes / 1024,
                limit_kb: reassembly_bytes_max / 1024,
                memory_mb: budget_bytes / MIB,
            })
        })
    }

    fn fitting(
        available_bytes: impl FnOnce() -> u64,
        asked_bytes: Option<u64>,
        asked_reassembly_bytes: Option<u64>,
    ) -> Self {
        let budget_bytes = asked_bytes.unwrap_or_else(|| {
            let least = asked_reassembly_bytes.map(|bytes| bytes.saturating_mul(LARGEST_PARTS_OF_MEMORY));
            (available_bytes() / PART_OF_MACHINE).min(BYTES_MAX).max(least.unwrap_or(BYTES_MIN))
        });
        let reassembly_bytes_max =
            LimitsConfig::reassembly_bytes_max(asked_reassembly_bytes, Some(budget_bytes));
        Self { budget_bytes, reassembly_bytes_max }
    }

    /// The budget, with room for a largest message in turn.
    pub(super) fn budget(self) -> Budget {
        let [bytes, turn_bytes] = [self.budget_bytes, self.reassembly_bytes_max]
            .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        Budget::with_turns(bytes, turn_bytes)
    }
}

/// What a store that opens may keep of what it read, in bytes, until it was all looked through.
pub(super) fn warm_bytes_max() -> usize {
    usize::try_from(available_bytes(Path::new("/")) / WARM_PART_OF_MACHINE).unwrap_or(usize::MAX)
}

/// The least of the machine's memory and the limits of the process's control groups; `root` is `/` but in tests.
fn available_bytes(root: &Path) -> u64 {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| limit_files(root, line)).filter_map(|file| {
        // "max" is no limit; version 1 says so with a number beyond every machine.
        fs::read_to_string(file).ok()?.trim().parse().ok()
    });
    limits.chain(machine_bytes(root)).min().unwrap_or(MACHINE_BYTES_UNKNOWN)
}

fn machine_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Where the limits of a control group and of those above it stand; a line of `/proc/self/cgroup` is
/// `number:controllers:path`, without controllers in version 2. In a container the path is often that of the host, and the
/// group's own files stand at the top.
fn limit_files(root: &Path, line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (top, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let path = Path::new(path.trim_start_matches('/'));
    path.ancestors().map(|group| root.join(top).join(group).join(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn the_least_limit_counts_whichever_version_of_control_groups_sets_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert_eq!(available_bytes(root), MACHINE_BYTES_UNKNOWN);
        write(root, "proc/meminfo", "MemFree: 1 kB\nMemTotal:  8388608 kB\n");
        assert_eq!(available_bytes(root), 8192 * MIB);
        write(root, "proc/self/cgroup", "5:cpu,memory:/docker/abc\n0::/slice/broker\n");
        write(root, "sys/fs/cgroup/slice/broker/memory.max", "max\n");
        assert_eq!(available_bytes(root), 8192 * MIB);
        write(root, "sys/fs/cgroup/slice/memory.max", "4294967296\n");
        assert_eq!(available_bytes(root), 4096 * MIB);
        // In a container the host's path leads nowhere and the limit stands at the top.
        write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        assert_eq!(available_bytes(root), 512 * MIB);
    }

    #[test]
    fn a_budget_fits_the_machine_and_holds_a_largest_message() {
        let fitting = |available_mib: u64, asked: Option<u64>, reassembly: Option<u64>| {
            let memory = Memory::fitting(
                || available_mib * MIB,
                asked.map(|mib| mib * MIB),
                reassembly.map(|mib| mib * MIB),
            );
            (memory.budget_bytes / MIB, memory.reassembly_bytes_max / MIB)
        };
        assert_eq!(fitting(2048, None, None), (512, 104));
        assert_eq!(fitting(64 * 1024, None, None), (1024, 104));
        assert_eq!(fitting(256, None, None), (128, 32));
        assert_eq!(fitting(2048, None, Some(32)), (512, 32));
        assert_eq!(fitting(2048, None, Some(1024)), (4096, 1024));
        assert_eq!(fitting(2048, Some(64), None), (64, 16));
        assert_eq!(fitting(2048, Some(2048), None), (2048, 104));
    }
}
