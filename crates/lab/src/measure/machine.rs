//! What on this machine will spoil a measurement, and what the record says of the machine.

mod probe;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::runtime::Runtime;

use super::host::{HostReader, HostReading};
use crate::experiment::document::Machine;

/// How long load, pressure and stolen time are watched.
const WATCH: Duration = Duration::from_secs(1);

/// And by a quick look: twenty of the kernel's ticks, so that a share is told to 5% of a processor.
const QUICK_WATCH: Duration = Duration::from_millis(200);

/// Below this much free space a run is at risk.
const LITTLE_SPACE_BYTES: u64 = 2 << 30;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Nothing to do.
    Ok,
    /// Cannot be seen from here, which says nothing good of it.
    Unknown,
    /// Adds noise.
    Warn,
    /// Will spoil measurements.
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// A short name, such as `governor`.
    pub name: &'static str,
    /// How grave it is.
    pub grade: Grade,
    /// What was found, with figures.
    pub found: String,
    /// What to do about it; empty when nothing.
    pub remedy: String,
}

/// All that was found.
#[derive(Clone, Debug, Default)]
pub struct Examination {
    /// For the record.
    pub machine: Machine,
    /// In the order in which they are best read.
    pub findings: Vec<Finding>,
}

/// Looks at the machine for about two seconds. `data_directory` is where the data are or will be:
/// a file is made there for a moment to time its synchronisation.
#[must_use]
pub fn examine(data_directory: &Path, runtime: &Arc<dyn Runtime>) -> Examination {
    examine_for(data_directory, WATCH, true, runtime)
}

/// As [`examine`] in a fifth of a second: nothing is written, and timer and disk are not timed.
#[must_use]
pub fn examine_quickly(data_directory: &Path, runtime: &Arc<dyn Runtime>) -> Examination {
    examine_for(data_directory, QUICK_WATCH, false, runtime)
}

fn examine_for(
    data_directory: &Path,
    watch: Duration,
    with_probes: bool,
    runtime: &Arc<dyn Runtime>,
) -> Examination {
    let look = Look { root: PathBuf::from("/") };
    let mut findings = Vec::new();
    let reader = HostReader::of_this_machine(Some(data_directory));
    let before = reader.read();
    let began = runtime.now();
    if with_probes {
        findings.extend(probe::timer(runtime));
        findings.extend(probe::synchronisation(data_directory, runtime.as_ref()));
    }
    runtime.sleep_until(began.plus(watch));
    let seconds = runtime.now().since(began).as_secs_f64();
    let after = reader.read();
    findings.extend(look.processor());
    findings.extend(look.memory());
    findings.extend(load(&before, &after, seconds));
    findings.push(space(&after));
    findings.extend(look.disk(data_directory));
    findings.extend(look.containers());
    findings.push(open_files());
    let machine = look.machine(data_directory, &findings);
    Examination { machine, findings }
}

/// What the record says of the machine, without watching it for a while as [`examine`] does.
#[must_use]
pub fn describe(data_directory: &Path) -> Machine {
    let look = Look { root: PathBuf::from("/") };
    let mut findings = look.processor();
    findings.extend(look.memory());
    findings.extend(look.disk(data_directory));
    findings.extend(look.containers());
    look.machine(data_directory, &findings)
}

/// A view of `/proc` and `/sys`, or of a copy of them.
struct Look {
    root: PathBuf,
}

fn finding(
    name: &'static str,
    grade: Grade,
    found: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding { name, grade, found: found.into(), remedy: remedy.into() }
}

impl Look {
    fn text(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    fn processor(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.push(match self.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
            None => finding("governor", Grade::Unknown, "not shown to this system", ""),
            Some(name) if name == "performance" => finding("governor", Grade::Ok, name, ""),
            Some(name) => finding(
                "governor",
                Grade::Bad,
                format!("'{name}' changes the frequency with the load"),
                "cpupower frequency-set -g performance",
            ),
        });
        let turbo = self
            .text("sys/devices/system/cpu/intel_pstate/no_turbo")
            .map(|text| text == "0")
            .or_else(|| self.text("sys/devices/system/cpu/cpufreq/boost").map(|text| text == "1"));
        findings.push(match turbo {
            None => finding("turbo", Grade::Unknown, "not shown to this system", ""),
            Some(false) => finding("turbo", Grade::Ok, "off", ""),
            Some(true) => finding(
                "turbo",
                Grade::Warn,
                "on: the frequency depends on temperature and on neighbours",
                "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or cpufreq/boost to 0",
            ),
        });
        let source = self.text("sys/devices/system/clocksource/clocksource0/current_clocksource");
        findings.push(match source.as_deref() {
            None => finding("clock", Grade::Unknown, "source not known", ""),
            Some(
                name @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page"),
            ) => finding("clock", Grade::Ok, name, ""),
            // Read without a system call by some kernels only.
            Some("xen") => finding(
                "clock",
                Grade::Warn,
                "source 'xen' may need a system call for each reading",
                "boot with clocksource=tsc where the hypervisor keeps it stable",
            ),
            Some(name) => finding(
                "clock",
                Grade::Bad,
                format!("source '{name}' needs a system call for each reading"),
                "boot with clocksource=tsc where the hardware allows",
            ),
        });
        findings.extend(self.topology());
        findings.push(self.heat());
        let flags = self.text("proc/cpuinfo").unwrap_or_default();
        let is_virtual = flags
            .lines()
            .find(|line| line.starts_with("flags"))
            .is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
        findings.push(if is_virtual {
            let name = self.text("sys/class/dmi/id/product_name").unwrap_or_default();
            let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
            finding(
                "virtual",
                Grade::Warn,
                format!("a virtual machine{name}: neighbours may take time and disk"),
                "more pairs; watch steal in the results",
            )
        } else {
            finding("virtual", Grade::Ok, "no hypervisor seen", "")
        });
        findings
    }

    fn memory(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        // Name, type, size and used size in KiB, priority.
        let swaps = self.text("proc/swaps").map(|text| {
            let used = text.lines().skip(1).map(|line| {
                line.split_whitespace()
                    .nth(3)
                    .and_then(|word| word.parse::<u64>().ok())
                    .unwrap_or(0)
            });
            (text.lines().count().saturating_sub(1), used.fold(0_u64, u64::saturating_add) >> 10)
        });
        findings.push(match swaps {
            None => finding("swap", Grade::Unknown, "not known", ""),
            Some((0, _)) => finding("swap", Grade::Ok, "none", ""),
            Some((count, used_mib)) => {
                let swappiness = self.text("proc/sys/vm/swappiness").unwrap_or_default();
                finding(
                    "swap",
                    Grade::Warn,
                    format!("{count} places, {used_mib} MiB of them used, swappiness {swappiness}"),
                    "swapoff -a while measuring, or vm.swappiness = 1",
                )
            }
        });
        let huge = self
            .text("sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned()));
        findings.push(match huge.as_deref() {
            Some("always") => finding(
                "huge pages",
                Grade::Warn,
                "transparent ones 'always': compaction may stall processes",
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            ),
            Some(name) => finding("huge pages", Grade::Ok, format!("transparent: {name}"), ""),
            None => finding("huge pages", Grade::Ok, "transparent ones not offered", ""),
        });
        let memory = self.memory_bytes();
        let bytes = |name: &str| {
            self.text(&format!("proc/sys/vm/{name}"))?
                .parse::<u64>()
                .ok()
                .filter(|bytes| *bytes > 0)
        };
        let limit = |kind: &str| {
            bytes(&format!("{kind}_bytes")).or_else(|| {
                let percent = bytes(&format!("{kind}_ratio")).filter(|percent| *percent <= 100)?;
                Some((memory? / 100).saturating_mul(percent))
            })
        };
        findings.push(match (limit("dirty_background"), limit("dirty")) {
            (Some(background), Some(hard)) => {
                let found = format!(
                    "writing begins at {} MiB, writers wait at {} MiB",
                    background >> 20,
                    hard >> 20
                );
                if background > 1 << 30 {
                    finding(
                        "dirty limits",
                        Grade::Warn,
                        found,
                        "vm.dirty_background_bytes = 67108864, vm.dirty_bytes = 536870912",
                    )
                } else {
                    finding("dirty limits", Grade::Ok, found, "")
                }
            }
            _ => finding("dirty limits", Grade::Unknown, "not known", ""),
        });
        findings
    }

    fn disk(&self, data_directory: &Path) -> Vec<Finding> {
        let mut findings = Vec::new();
        let system = self.file_system(data_directory);
        findings.push(match system.as_deref() {
            Some(name @ ("tmpfs" | "ramfs")) => finding(
                "file system",
                Grade::Bad,
                format!("{name} is memory: nothing of a disk is measured"),
                "choose a directory on a disk (TMPDIR; --data-dir of doctor)",
            ),
            Some(name @ ("nfs" | "nfs4" | "cifs" | "fuse" | "9p" | "overlay")) => finding(
                "file system",
                Grade::Warn,
                format!("{name} is not a disk of this machine"),
                "choose a directory on a local disk (TMPDIR; --data-dir of doctor)",
            ),
            Some(name) => finding("file system", Grade::Ok, name, ""),
            None => finding("file system", Grade::Unknown, "not known", ""),
        });
        let Some((device, queue)) = self.queue_of(data_directory) else {
            findings.push(finding("disk", Grade::Unknown, "device not seen from here", ""));
            return findings;
        };
        let value = |name: &str| {
            std::fs::read_to_string(queue.join(name)).ok().map(|text| text.trim().to_owned())
        };
        let kind = match value("rotational").as_deref() {
            Some("1") => "rotating, or said to be",
            Some("0") => "not rotating",
            _ => "kind not known",
        };
        let scheduler = value("scheduler")
            .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned()))
            .unwrap_or_else(|| "not known".to_owned());
        findings.push(finding(
            "disk",
            Grade::Ok,
            format!("{device}, {kind}, scheduler {scheduler}"),
            "",
        ));
        findings.push(match value("write_cache").as_deref() {
            Some("write through") => {
                finding("write cache", Grade::Ok, "write through: no flush is needed", "")
            }
            Some("write back") => finding(
                "write cache",
                Grade::Ok,
                "write back: durable only by flushes, which are then part of the cost",
                "",
            ),
            _ => finding("write cache", Grade::Unknown, "not known", ""),
        });
        findings
    }

    /// Processors' arrangement: what makes two runs meet different hardware.
    fn topology(&self) -> Vec<Finding> {
        let smt = self.text("sys/devices/system/cpu/smt/active");
        let nodes = std::fs::read_dir(self.root.join("sys/devices/system/node"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| {
                let name = entry.file_name();
                let number = name.to_str().and_then(|name| name.strip_prefix("node"));
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            })
            .count();
        vec![
            match smt.as_deref() {
                Some("0") => finding("threads", Grade::Ok, "one thread a core", ""),
                Some("1") => finding(
                    "threads",
                    Grade::Warn,
                    "several a core: how fast one is depends on what its neighbour does",
                    "echo off > /sys/devices/system/cpu/smt/control, or leave cores free",
                ),
                _ => finding("threads", Grade::Unknown, "not known whether cores are shared", ""),
            },
            match nodes {
                0 => finding("numa", Grade::Unknown, "not known", ""),
                1 => finding("numa", Grade::Ok, "one node", ""),
                nodes => finding(
                    "numa",
                    Grade::Warn,
                    format!("{nodes} nodes: each start may place memory otherwise"),
                    "numactl --interleave=all for both arms, or more pairs",
                ),
            },
        ]
    }

    /// Whether processors were slowed down for their temperature, since the system started.
    fn heat(&self) -> Finding {
        let mut events: Option<u64> = None;
        let processors = std::fs::read_dir(self.root.join("sys/devices/system/cpu"));
        for entry in processors.into_iter().flatten().flatten() {
            for kind in ["core", "package"] {
                let path = entry.path().join(format!("thermal_throttle/{kind}_throttle_count"));
                let count = std::fs::read_to_string(path)
                    .ok()
                    .and_then(|text| text.trim().parse::<u64>().ok());
                if let Some(count) = count {
                    events = Some(events.unwrap_or(0).max(count));
                }
            }
        }
        let zones = std::fs::read_dir(self.root.join("sys/class/thermal"));
        let hottest = zones
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("temp")).ok())
            // Thousandths of a degree; some sensors that are not there say the impossible.
            .filter_map(|text| text.trim().parse::<i64>().ok())
            .filter(|temperature| (1..150_000).contains(temperature))
            .max()
            .map_or_else(String::new, |it| format!(", {} degrees at the hottest", it / 1000));
        match events {
            None if hottest.is_empty() => finding("heat", Grade::Unknown, "not shown", ""),
            None => finding("heat", Grade::Unknown, format!("slowing is not shown{hottest}"), ""),
            Some(0) => finding("heat", Grade::Ok, format!("never slowed down{hottest}"), ""),
            Some(count) => finding(
                "heat",
                Grade::Warn,
                format!("slowed down {count} times since the system started{hottest}"),
                "cooling; a lower fixed frequency for all runs",
            ),
        }
    }

    /// Limits of the control group and of all groups around it, of which the tightest rules.
    fn containers(&self) -> Vec<Finding> {
        let mut processors: Option<f64> = None;
        let mut memory: Option<u64> = None;
        let number = |path: &str| self.text(path).and_then(|text| text.parse::<u64>().ok());
        let mut narrow = |quota: Option<u64>, period: Option<u64>| {
            if let (Some(quota), Some(period @ 1..)) = (quota, period) {
                let share = super::host::as_float(quota) / super::host::as_float(period);
                processors = Some(processors.map_or(share, |least: f64| least.min(share)));
            }
        };
        let mut narrow_memory = |bytes: Option<u64>| {
            // Version 1 writes "no limit" as the largest number of whole pages.
            if let Some(bytes) = bytes.filter(|bytes| *bytes < 1 << 62) {
                memory = Some(memory.map_or(bytes, |least| least.min(bytes)));
            }
        };
        let groups = self.text("proc/self/cgroup").unwrap_or_default();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let controls = |name| controllers.split(',').any(|found| found == name);
            for group in Path::new(path).ancestors() {
                let group = group.to_string_lossy();
                let group = group.trim_matches('/');
                if group.split('/').any(|part| part == "..") {
                    continue;
                }
                if controllers.is_empty() {
                    let limit = self.text(&format!("sys/fs/cgroup/{group}/cpu.max"));
                    let mut words = limit.as_deref().unwrap_or_default().split_whitespace();
                    let quota = words.next().and_then(|word| word.parse().ok());
                    narrow(quota, words.next().and_then(|word| word.parse().ok()));
                    narrow_memory(number(&format!("sys/fs/cgroup/{group}/memory.max")));
                }
                if controls("cpu") {
                    let file = |name: &str| number(&format!("sys/fs/cgroup/cpu/{group}/{name}"));
                    narrow(file("cpu.cfs_quota_us"), file("cpu.cfs_period_us"));
                }
                if controls("memory") {
                    let path = format!("sys/fs/cgroup/memory/{group}/memory.limit_in_bytes");
                    narrow_memory(number(&path));
                }
            }
        }
        let mut limits = Vec::new();
        limits.extend(processors.map(|count| format!("{count:.2} processors")));
        limits.extend(memory.map(|bytes| format!("{} MiB of memory", bytes >> 20)));
        vec![if limits.is_empty() {
            finding("limits", Grade::Ok, "no control group's limit seen", "")
        } else {
            finding(
                "limits",
                Grade::Warn,
                format!("control group: {}", limits.join(", ")),
                "measure outside of the container, or raise its limits",
            )
        }]
    }

    fn memory_bytes(&self) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// Type of the file system that holds `path`: of the mount whose point is its longest prefix.
    fn file_system(&self, path: &Path) -> Option<String> {
        let path = std::fs::canonicalize(path).ok()?;
        let text = self.text("proc/self/mounts")?;
        text.lines()
            .filter_map(|line| {
                let mut words = line.split(' ').skip(1);
                // Blanks in paths are written as octal.
                let point = PathBuf::from(words.next()?.replace("\\040", " "));
                let kind = words.next()?.to_owned();
                path.starts_with(&point).then(|| (point.as_os_str().len(), kind))
            })
            // The last of equals covers those before it.
            .max_by_key(|(length, _)| *length)
            .map(|(_, kind)| kind)
    }

    /// Name and queue directory of the disk below `path`; of the whole disk for a partition.
    fn queue_of(&self, path: &Path) -> Option<(String, PathBuf)> {
        let device = std::fs::metadata(path).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let link = self.root.join(format!("sys/dev/block/{major}:{minor}"));
        let place = std::fs::canonicalize(link).ok()?;
        let name = place.file_name()?.to_string_lossy().into_owned();
        [place.join("queue"), place.parent()?.join("queue")]
            .into_iter()
            .find(|queue| queue.is_dir())
            .map(|queue| (name, queue))
    }

    fn machine(&self, data_directory: &Path, findings: &[Finding]) -> Machine {
        let uname = rustix::system::uname();
        let cpu = self.text("proc/cpuinfo").and_then(|text| {
            text.lines()
                .find(|line| line.starts_with("model name"))
                .and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
        });
        let count = std::thread::available_parallelism().ok();
        Machine {
            kernel: Some(format!(
                "{} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy()
            )),
            cpu,
            cpu_count: count.and_then(|count| u32::try_from(count.get()).ok()),
            memory_bytes: self.memory_bytes(),
            file_system: self.file_system(data_directory),
            clock_source: self
                .text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            facts: findings
                .iter()
                .map(|finding| (finding.name.to_owned(), finding.found.clone()))
                .collect(),
            warnings: findings
                .iter()
                .filter(|finding| finding.grade >= Grade::Warn)
                .map(|finding| format!("{}: {}", finding.name, finding.found))
                .collect(),
        }
    }
}

/// What others did while we looked.
fn load(before: &HostReading, after: &HostReading, seconds: f64) -> Vec<Finding> {
    let samples = after.samples_since(before, seconds);
    let value = |name: &str| samples.get(name).copied().flatten();
    let percent = |ratio: f64| format!("{:.1}%", ratio * 100.0);
    let mut findings = Vec::new();
    let grade = |ratio: f64, warn: f64, bad: f64| match ratio {
        ratio if ratio >= bad => Grade::Bad,
        ratio if ratio >= warn => Grade::Warn,
        _ => Grade::Ok,
    };
    for (name, sample, warn, bad, what, remedy) in [
        (
            "load",
            "cpu_busy_ratio",
            0.05,
            0.25,
            "of processor time used while nothing was measured",
            "stop other work: see top",
        ),
        (
            "steal",
            "steal_ratio",
            0.005,
            0.03,
            "of processor time taken by the hypervisor",
            "another host or time of day; more pairs",
        ),
        (
            "pressure cpu",
            "psi_cpu_some_ratio",
            0.05,
            0.25,
            "of time some task waited for a processor",
            "stop other work",
        ),
        (
            "pressure io",
            "psi_io_some_ratio",
            0.1,
            0.4,
            "of time some task waited for the disk",
            "stop other work: see iotop",
        ),
        (
            "pressure mem",
            "psi_memory_some_ratio",
            0.005,
            0.05,
            "of time some task waited for memory",
            "stop other work, or use less shared_buffers",
        ),
    ] {
        findings.push(match value(sample) {
            None => finding(name, Grade::Unknown, "not shown by this kernel", ""),
            Some(ratio) => {
                let grade = grade(ratio, warn, bad);
                let remedy = if grade == Grade::Ok { "" } else { remedy };
                finding(name, grade, format!("{} {what}", percent(ratio)), remedy)
            }
        });
    }
    findings
}

fn space(reading: &HostReading) -> Finding {
    match reading.disk_free_bytes {
        None => finding("free space", Grade::Unknown, "not known", ""),
        Some(bytes) if bytes < LITTLE_SPACE_BYTES => finding(
            "free space",
            Grade::Bad,
            format!("{:.1} GiB", super::host::as_float(bytes) / f64::from(1 << 30)),
            "make room, or choose another directory (TMPDIR; --data-dir of doctor)",
        ),
        Some(bytes) => finding(
            "free space",
            Grade::Ok,
            format!("{:.1} GiB", super::host::as_float(bytes) / f64::from(1 << 30)),
            "",
        ),
    }
}

fn open_files() -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    match limit {
        Some(count) if count < 1024 => finding(
            "open files",
            Grade::Bad,
            format!("at most {count}"),
            "ulimit -n 65536: each client needs one here and several in the server",
        ),
        Some(count) => finding("open files", Grade::Ok, format!("at most {count}"), ""),
        None => finding("open files", Grade::Ok, "no limit", ""),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::runtime::OsRuntime;

    use super::*;

    fn copy(files: &[(&str, &str)]) -> (tempfile::TempDir, Look) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let look = Look { root: directory.path().to_owned() };
        (directory, look)
    }

    fn grade(findings: &[Finding], name: &str) -> Grade {
        findings.iter().find(|finding| finding.name == name).unwrap().grade
    }

    #[test]
    fn a_machine_that_saves_power_and_swaps_is_told_so_with_the_remedy() {
        let (_directory, look) = copy(&[
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ("proc/cpuinfo", "flags : fpu hypervisor sse\n"),
            ("proc/swaps", "Filename Type\n/dev/sda2 partition\n"),
            ("proc/meminfo", "MemTotal: 67108864 kB\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
            ("proc/sys/vm/dirty_background_bytes", "0\n"),
            ("proc/sys/vm/dirty_bytes", "0\n"),
            ("proc/sys/vm/dirty_background_ratio", "10\n"),
            ("proc/sys/vm/dirty_ratio", "20\n"),
        ]);
        let (processor, memory) = (look.processor(), look.memory());
        assert_eq!(grade(&processor, "governor"), Grade::Bad);
        assert_eq!(grade(&processor, "turbo"), Grade::Warn);
        assert_eq!(grade(&processor, "clock"), Grade::Bad);
        assert_eq!(grade(&processor, "virtual"), Grade::Warn);
        for name in ["swap", "huge pages", "dirty limits"] {
            assert_eq!(grade(&memory, name), Grade::Warn, "{name}");
        }
        for finding in processor.iter().chain(&memory) {
            assert_eq!(finding.remedy.is_empty(), finding.grade < Grade::Warn, "{finding:?}");
        }
    }

    #[test]
    fn what_is_not_shown_is_not_called_good() {
        let (_directory, look) = copy(&[]);
        assert_eq!(grade(&look.memory(), "swap"), Grade::Unknown);
        for name in ["governor", "turbo", "clock", "threads", "numa", "heat"] {
            assert_eq!(grade(&look.processor(), name), Grade::Unknown, "{name}");
        }
        let reading = HostReading::default();
        assert!(load(&reading, &reading, 1.0).iter().all(|it| it.grade == Grade::Unknown));
        assert_eq!(space(&reading).grade, Grade::Unknown);
    }

    #[test]
    fn the_longest_mount_point_decides_and_the_last_of_equals_covers_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let deep = std::fs::canonicalize(directory.path()).unwrap();
        let mounts = format!(
            "a / ext4 rw 0 0\nb {0} xfs rw 0 0\nc {0} btrfs rw 0 0\nd {0}x zfs rw 0 0\n",
            deep.display()
        );
        let (_copy, look) = copy(&[("proc/self/mounts", &mounts)]);
        assert_eq!(look.file_system(&deep).as_deref(), Some("btrfs"));
        assert_eq!(look.file_system(Path::new("/")).as_deref(), Some("ext4"));
    }

    #[test]
    fn limits_of_a_container_are_seen() {
        let (_directory, look) = copy(&[
            ("proc/self/cgroup", "0::/box\n"),
            ("sys/fs/cgroup/box/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/box/memory.max", "max\n"),
        ]);
        let findings = look.containers();
        assert_eq!(findings[0].grade, Grade::Warn);
        assert!(findings[0].found.contains("0.50 processors"), "{}", findings[0].found);
        assert!(!findings[0].found.contains("memory"));
    }

    #[test]
    fn a_limit_of_a_group_around_ours_or_of_version_1_is_seen() {
        let (_directory, look) = copy(&[
            ("proc/self/cgroup", "0::/out/in\n"),
            ("sys/fs/cgroup/out/cpu.max", "200000 100000\n"),
            ("sys/fs/cgroup/out/in/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/out/memory.max", "2147483648\n"),
        ]);
        let found = &look.containers()[0].found;
        assert!(found.contains("2.00 processors") && found.contains("1024 MiB"), "{found}");
        let (_directory, look) = copy(&[
            ("proc/self/cgroup", "4:cpu,cpuacct:/box\n3:memory:/box\n"),
            ("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let found = &look.containers()[0].found;
        assert!(found.contains("1.50 processors") && !found.contains("memory"), "{found}");
    }

    #[test]
    fn files_that_lie_or_break_off_neither_panic_nor_look_good() {
        let largest = u64::MAX.to_string();
        for text in
            ["", "\n", "x", &largest, "-1", "18446744073709551616", "0 0", "max max", "[", ":"]
        {
            let names = [
                "proc/self/cgroup",
                "proc/self/mounts",
                "proc/cpuinfo",
                "proc/swaps",
                "proc/sys/vm/dirty_background_ratio",
                "proc/sys/vm/dirty_ratio",
                "proc/sys/vm/dirty_bytes",
                "sys/fs/cgroup/cpu.max",
                "sys/fs/cgroup/memory.max",
                "sys/devices/system/cpu/smt/active",
                "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
                "sys/devices/system/node/nodex/meminfo",
                "sys/class/thermal/thermal_zone0/temp",
                "sys/kernel/mm/transparent_hugepage/enabled",
            ];
            let mut files: Vec<(&str, &str)> = names.iter().map(|name| (*name, text)).collect();
            files.push(("proc/meminfo", "MemTotal: 18014398509481983 kB\n"));
            let (_directory, look) = copy(&files);
            for finding in look.processor().iter().chain(&look.memory()).chain(&look.containers()) {
                assert!(!finding.found.contains("NaN") && !finding.found.contains("inf"));
            }
            assert!(grade(&look.memory(), "dirty limits") > Grade::Ok, "'{text}'");
            let _ = look.file_system(Path::new("/"));
        }
    }

    #[test]
    fn an_examination_of_this_machine_fills_the_record_and_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
        let examination = examine(directory.path(), &runtime);
        assert!(examination.machine.kernel.is_some());
        assert!(examination.machine.memory_bytes.is_some());
        assert_eq!(examination.machine.facts.len(), examination.findings.len());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
