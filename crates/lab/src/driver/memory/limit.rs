//! How much memory can still be had: of the machine, and of the control groups that this process is in.
//!
//! A container, or a service with `MemoryMax=`, is killed at its group's limit while the machine still has
//! plenty. What a group can still give is its limit less its use, where pages of files that nobody has used
//! lately do not count as used: the kernel takes them back first (`inactive_file`; the kubelet's "working
//! set" leaves out the same). Groups are nested, and the narrowest counts. Read are both versions: 2
//! (`memory.max`, `memory.current`) and 1 (`memory.limit_in_bytes`, `memory.usage_in_bytes`), as the kernel's
//! `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst` describe them.

use std::path::{Path, PathBuf};

/// The files of a version of control groups.
struct Files {
    limit: &'static str,
    used: &'static str,
    /// Key in `memory.stat` of what can be taken back, child groups included.
    inactive: &'static str,
}

const VERSION_2: Files =
    Files { limit: "memory.max", used: "memory.current", inactive: "inactive_file" };
const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
};

/// What this process can still be given without swapping; `None` where the kernel does not say. `root` is
/// `/`, or a copy of `/proc` and `/sys` in it.
pub(super) fn available_bytes(root: &Path) -> Option<u64> {
    let of_machine = std::fs::read_to_string(root.join("proc/meminfo"))
        .ok()
        .and_then(|text| available_in(&text));
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| of_group(root, line)).min();
    of_machine.into_iter().chain(of_groups).min()
}

/// Of the group of a line of `/proc/self/cgroup`, and of all groups around it.
fn of_group(root: &Path, line: &str) -> Option<u64> {
    // number:controllers:path
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (mount, files) = match controllers {
        "" => ("sys/fs/cgroup", VERSION_2),
        names if names.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", VERSION_1)
        }
        _ => return None,
    };
    let mount = root.join(mount);
    // In a namespace of its own, or a container, the path may not be there; the mount's own files are
    // those of the container then.
    let own: PathBuf = mount.join(path.trim_start_matches('/'));
    own.ancestors()
        .take_while(|directory| directory.starts_with(&mount))
        .filter_map(|directory| left_in(directory, &files))
        .min()
}

/// What the group of this directory can still give; `None` where it has no limit.
fn left_in(directory: &Path, files: &Files) -> Option<u64> {
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    // "max" is no number; version 1 says the same by one beyond all memory there is, which does no harm.
    let limit = number(files.limit)?;
    let used = number(files.used)?;
    let inactive = text("memory.stat")
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix(files.inactive))?;
            line.trim().parse::<u64>().ok()
        })
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(inactive)))
}

/// The kernel's own estimate for the machine.
fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    /// A root directory with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_kernel_s_words_are_understood_or_left() {
        let text = "MemTotal:       24684032 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(available_in(text), Some(20_480_000_000));
        assert_eq!(available_in("MemAvailable: x kB\n"), None);
        assert_eq!(available_in(""), None);
        assert_eq!(available_bytes(root(&[]).path()), None);
    }

    #[test]
    fn a_container_s_limit_counts_where_the_machine_has_more() {
        let meminfo = ("proc/meminfo", "MemAvailable:   20000000 kB\n");
        let root = root(&[
            meminfo,
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/memory.max", "4000000000\n"),
            ("sys/fs/cgroup/outer/memory.current", "3500000000\n"),
            ("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 500000000\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/inner/memory.current", "3000000000\n"),
        ]);
        assert_eq!(available_bytes(root.path()), Some(GB));
    }

    #[test]
    fn in_a_namespace_of_its_own_the_limit_is_found_at_the_mount() {
        let root = self::root(&[
            ("proc/self/cgroup", "0::/../../elsewhere\n"),
            ("sys/fs/cgroup/memory.max", "2000000000\n"),
            ("sys/fs/cgroup/memory.current", "500000000\n"),
        ]);
        assert_eq!(available_bytes(root.path()), Some(1_500_000_000));
    }

    #[test]
    fn limits_of_the_first_version_are_read_and_none_means_the_machine_s() {
        let limit = |limit: &str| {
            root(&[
                ("proc/meminfo", "MemAvailable:   20000000 kB\n"),
                ("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n"),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", limit),
                ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1000000000\n"),
                (
                    "sys/fs/cgroup/memory/a/memory.stat",
                    "inactive_file 9\ntotal_inactive_file 250000000\n",
                ),
            ])
        };
        assert_eq!(available_bytes(limit("2000000000\n").path()), Some(1_250_000_000));
        let unlimited = limit("9223372036854771712\n");
        assert_eq!(available_bytes(unlimited.path()), Some(20_480_000_000));
    }
}
