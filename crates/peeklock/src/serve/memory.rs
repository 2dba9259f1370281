//! How much memory peers may make the process hold.

use std::fs;
use std::path::{Path, PathBuf};

use peeklock_budget::Budget;

use crate::config::{Config, LARGEST_PARTS_OF_MEMORY};

const MIB: u64 = 1 << 20;

/// Without a setting, the budget is what the process may use, divided by this: the rest is for what is stored about waiting
/// messages, which the budget doesn't cover.
const PART_OF_MACHINE: u64 = 4;

/// The budget without a setting is never more than this: more brings nothing.
const BYTES_MAX: u64 = 1024 * MIB;

/// Memory of a machine that doesn't say what it has.
const MACHINE_BYTES_UNKNOWN: u64 = 1024 * MIB;

/// The budget that the configuration asks for, or one that fits the container or the machine.
pub(super) fn budget(config: &Config) -> Budget {
    let bytes = config.limits.memory_bytes_max.unwrap_or_else(|| {
        let available = available_bytes(Path::new("/"));
        fitting(available, config.amqp.reassembly_bytes_max)
    });
    tracing::info!(bytes, "memory for messages under way");
    Budget::new(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// A part of what there is, and room for one largest message in any case.
fn fitting(available_bytes: u64, reassembly_bytes_max: u64) -> u64 {
    let least = reassembly_bytes_max.saturating_mul(LARGEST_PARTS_OF_MEMORY);
    (available_bytes / PART_OF_MACHINE).min(BYTES_MAX).max(least)
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
        assert_eq!(fitting(2048 * MIB, 32 * MIB), 512 * MIB);
        assert_eq!(fitting(256 * MIB, 32 * MIB), 128 * MIB);
        assert_eq!(fitting(64 * 1024 * MIB, 32 * MIB), 1024 * MIB);
        assert_eq!(fitting(2048 * MIB, 1024 * MIB), 4096 * MIB);
    }
}
