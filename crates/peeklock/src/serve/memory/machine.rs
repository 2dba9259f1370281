//! Memory of the machine, and of this process.

use std::fs;
use std::path::{Path, PathBuf};

/// Assumed memory of a machine if it is unknown.
const MACHINE_BYTES_UNKNOWN: u64 = 1024 << 20;

/// The minimum of the machine's memory and the limits of the process's control groups; `root` is `/` except in tests.
pub(super) fn available_bytes(root: &Path) -> u64 {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| limit_files(root, line)).filter_map(|file| {
        // "max" means no limit; version 1 uses a number beyond every machine.
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

/// Files with the limits of a control group and of its ancestors; a line of `/proc/self/cgroup` is
/// `number:controllers:path`, without controllers in version 2. In a container the path is often that of the host, and
/// the group's own files are at the top.
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

/// Memory of this process that the system can't reclaim, in bytes: pages not backed by a file, including those in swap.
/// `None` where unknown.
pub(super) fn process_bytes(root: &Path) -> Option<u64> {
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    let kib = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((kib("RssAnon:")? + kib("VmSwap:").unwrap_or(0)) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

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
        // In a container the host's path does not exist and the limit is at the top.
        write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        assert_eq!(available_bytes(root), 512 * MIB);
    }

    #[test]
    fn memory_of_the_process_is_memory_not_backed_by_files() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert_eq!(process_bytes(root), None);
        let status = "Name:\tpeeklock\nVmRSS:\t   900 kB\nRssAnon:\t     500 kB\nRssFile:\t     400 kB\nVmSwap:\t      24 kB\n";
        write(root, "proc/self/status", status);
        assert_eq!(process_bytes(root), Some(524 * 1024));
    }
}
