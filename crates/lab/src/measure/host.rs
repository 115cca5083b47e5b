//! What the machine does, read from `/proc`. What a kernel or a container does not show is absent,
//! never zero.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The kernel counts processor time in hundredths of a second for `/proc` (USER_HZ), whatever its
/// own tick is.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// `/proc/diskstats` counts sectors of 512 bytes, whatever the device's are.
const SECTOR_BYTES: u64 = 512;

/// Reads `/proc`, or a copy of it.
#[derive(Clone, Debug)]
pub struct HostReader {
    root: PathBuf,
    device: Option<(u32, u32)>,
    data_directory: Option<PathBuf>,
}

/// The machine's counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostReading {
    /// Processor time of all kinds, over all processors, in ticks.
    pub cpu_all_ticks: Option<u64>,
    /// Processor time that was worked in, stolen time excluded, in ticks.
    pub cpu_busy_ticks: Option<u64>,
    /// Processor time that the hypervisor gave to others, in ticks.
    pub cpu_steal_ticks: Option<u64>,
    /// Memory that has to be written to files.
    pub dirty_bytes: Option<u64>,
    /// Memory that is being written to files.
    pub writeback_bytes: Option<u64>,
    /// Faults that had to read from storage.
    pub major_faults: Option<u64>,
    /// Pages swapped in and out.
    pub swap_pages: Option<u64>,
    /// Microseconds in which some task waited for I/O.
    pub psi_io_some_us: Option<u64>,
    /// Microseconds in which all tasks waited for I/O.
    pub psi_io_full_us: Option<u64>,
    /// Microseconds in which some task waited for a processor.
    pub psi_cpu_some_us: Option<u64>,
    /// Microseconds in which some task waited for memory.
    pub psi_memory_some_us: Option<u64>,
    /// Bytes read from the data's device.
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to the data's device.
    pub disk_write_bytes: Option<u64>,
    /// Milliseconds in which the data's device had something to do.
    pub disk_busy_ms: Option<u64>,
    /// Flush requests that the data's device completed (kernel 5.5 and later).
    pub disk_flushes: Option<u64>,
    /// Free space of the data's file system.
    pub disk_free_bytes: Option<u64>,
}

impl HostReader {
    /// Of this machine; disk figures are of the device that holds `data_directory`.
    #[must_use]
    pub fn of_this_machine(data_directory: Option<&Path>) -> Self {
        let device = data_directory
            .and_then(|path| std::fs::metadata(path).ok())
            .map(|metadata| (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev())));
        Self {
            root: PathBuf::from("/proc"),
            device,
            data_directory: data_directory.map(Path::to_owned),
        }
    }

    /// Of a copy of `/proc` below `root`.
    #[must_use]
    pub fn of_copy(root: &Path, device: Option<(u32, u32)>) -> Self {
        Self { root: root.to_owned(), device, data_directory: None }
    }

    /// All counters now; costs a few tenths of a millisecond.
    #[must_use]
    pub fn read(&self) -> HostReading {
        let mut reading = HostReading::default();
        self.read_cpu(&mut reading);
        if let Some(text) = self.text("meminfo") {
            let kib = |name| named_number(&text, name).and_then(|kib| kib.checked_mul(1024));
            reading.dirty_bytes = kib("Dirty:");
            reading.writeback_bytes = kib("Writeback:");
        }
        if let Some(text) = self.text("vmstat") {
            reading.major_faults = named_number(&text, "pgmajfault");
            reading.swap_pages = named_number(&text, "pswpin")
                .zip(named_number(&text, "pswpout"))
                .map(|(pages_in, pages_out)| pages_in.saturating_add(pages_out));
        }
        reading.psi_io_some_us = self.pressure("io", "some");
        reading.psi_io_full_us = self.pressure("io", "full");
        reading.psi_cpu_some_us = self.pressure("cpu", "some");
        reading.psi_memory_some_us = self.pressure("memory", "some");
        self.read_disk(&mut reading);
        reading
    }

    /// Processor time of a process with all threads, and of its children that have ended, in ticks.
    #[must_use]
    pub fn process_ticks(&self, process: u32) -> Option<u64> {
        let text = self.text(&format!("{process}/stat"))?;
        // The name in parentheses may hold anything, also parentheses and blanks.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let mut sum = 0_u64;
        for field in fields.get(11..15)? {
            sum = sum.saturating_add(field.parse::<u64>().ok()?);
        }
        Some(sum)
    }

    /// How often processors were slowed down for heat since the machine started, over all cores, as
    /// `/sys` counts it beside `/proc`; absent where the kernel or the processor does not count.
    #[must_use]
    pub fn thermal_throttles(&self) -> Option<u64> {
        let processors = self.root.with_file_name("sys").join("devices/system/cpu");
        let mut sum = None;
        for entry in std::fs::read_dir(processors).ok()?.flatten() {
            let counter = entry.path().join("thermal_throttle/core_throttle_count");
            let count = std::fs::read_to_string(counter).ok();
            if let Some(count) = count.and_then(|text| text.trim().parse::<u64>().ok()) {
                sum = Some(count.saturating_add(sum.unwrap_or(0)));
            }
        }
        sum
    }

    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(name)).ok()
    }

    fn read_cpu(&self, reading: &mut HostReading) {
        let Some(text) = self.text("stat") else { return };
        let Some(line) = text.lines().find_map(|line| line.strip_prefix("cpu ")) else { return };
        // user nice system idle iowait irq softirq steal; the guest times are in user and nice.
        let ticks: Option<Vec<u64>> =
            line.split_whitespace().take(8).map(|word| word.parse().ok()).collect();
        let Some(ticks) = ticks.filter(|ticks| ticks.len() == 8) else { return };
        let sum = |places: &[usize]| {
            places.iter().map(|place| ticks[*place]).fold(0_u64, u64::saturating_add)
        };
        reading.cpu_all_ticks = Some(sum(&[0, 1, 2, 3, 4, 5, 6, 7]));
        reading.cpu_busy_ticks = Some(sum(&[0, 1, 2, 5, 6]));
        reading.cpu_steal_ticks = Some(ticks[7]);
    }

    fn pressure(&self, resource: &str, kind: &str) -> Option<u64> {
        let text = self.text(&format!("pressure/{resource}"))?;
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(kind))?;
        line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
    }

    fn read_disk(&self, reading: &mut HostReading) {
        if let Some(found) =
            self.data_directory.as_deref().and_then(|path| rustix::fs::statvfs(path).ok())
        {
            reading.disk_free_bytes = Some(found.f_bavail.saturating_mul(found.f_frsize));
        }
        let Some((major, minor)) = self.device else { return };
        let Some(text) = self.text("diskstats") else { return };
        for line in text.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |place: usize| fields.get(place).and_then(|word| word.parse::<u64>().ok());
            if number(0) != Some(u64::from(major)) || number(1) != Some(u64::from(minor)) {
                continue;
            }
            // Documentation/admin-guide/iostats.rst; three words stand before the first field.
            reading.disk_read_bytes = number(5).map(|sectors| sectors.saturating_mul(SECTOR_BYTES));
            reading.disk_write_bytes =
                number(9).map(|sectors| sectors.saturating_mul(SECTOR_BYTES));
            reading.disk_busy_ms = number(12);
            reading.disk_flushes = number(18);
            return;
        }
    }
}

impl HostReading {
    /// What a timeline shows: levels as they are now, counters as rates since `before`, which was
    /// `seconds` ago.
    #[must_use]
    pub fn samples_since(&self, before: &Self, seconds: f64) -> BTreeMap<String, Option<f64>> {
        let rate = |now: Option<u64>, then: Option<u64>, factor: f64| {
            delta(now, then).filter(|_| seconds > 0.0).map(|delta| delta * factor / seconds)
        };
        let share = |now, then| {
            let all = delta(self.cpu_all_ticks, before.cpu_all_ticks)?;
            let part = delta(now, then)?;
            (all > 0.0).then(|| part / all)
        };
        [
            ("dirty_bytes", self.dirty_bytes.map(as_float)),
            ("writeback_bytes", self.writeback_bytes.map(as_float)),
            ("major_faults_per_s", rate(self.major_faults, before.major_faults, 1.0)),
            ("swap_pages_per_s", rate(self.swap_pages, before.swap_pages, 1.0)),
            ("psi_io_some_ratio", rate(self.psi_io_some_us, before.psi_io_some_us, 1e-6)),
            ("psi_io_full_ratio", rate(self.psi_io_full_us, before.psi_io_full_us, 1e-6)),
            ("psi_cpu_some_ratio", rate(self.psi_cpu_some_us, before.psi_cpu_some_us, 1e-6)),
            (
                "psi_memory_some_ratio",
                rate(self.psi_memory_some_us, before.psi_memory_some_us, 1e-6),
            ),
            ("disk_read_bytes_per_s", rate(self.disk_read_bytes, before.disk_read_bytes, 1.0)),
            ("disk_write_bytes_per_s", rate(self.disk_write_bytes, before.disk_write_bytes, 1.0)),
            ("disk_busy_ratio", rate(self.disk_busy_ms, before.disk_busy_ms, 1e-3)),
            ("disk_flushes_per_s", rate(self.disk_flushes, before.disk_flushes, 1.0)),
            ("cpu_busy_ratio", share(self.cpu_busy_ticks, before.cpu_busy_ticks)),
            ("steal_ratio", share(self.cpu_steal_ticks, before.cpu_steal_ticks)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// What a counter has grown by; `None` where it is absent, or has been set back.
pub(super) fn delta(now: Option<u64>, before: Option<u64>) -> Option<f64> {
    now?.checked_sub(before?).map(as_float)
}

#[allow(clippy::cast_precision_loss, reason = "counters beyond 2^53 lose their last digits only")]
pub(super) const fn as_float(value: u64) -> f64 {
    value as f64
}

/// The number behind `name` at the beginning of a line.
fn named_number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_that_no_processor_counts_is_absent_and_not_zero() {
        let root = tempfile::tempdir().unwrap();
        let reader = HostReader::of_copy(&root.path().join("proc"), None);
        assert_eq!(reader.thermal_throttles(), None);
        let processors = root.path().join("sys/devices/system/cpu");
        std::fs::create_dir_all(processors.join("cpufreq")).unwrap();
        assert_eq!(reader.thermal_throttles(), None);
        for (name, count) in [("cpu0", "3\n"), ("cpu1", "4\n"), ("cpu2", "broken")] {
            let directory = processors.join(name).join("thermal_throttle");
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("core_throttle_count"), count).unwrap();
        }
        assert_eq!(reader.thermal_throttles(), Some(7));
    }

    fn copy(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn what_the_kernel_does_not_show_is_absent_and_not_zero() {
        let root = copy(&[("pressure/io", "")]);
        let reading = HostReader::of_copy(root.path(), Some((8, 0))).read();
        assert_eq!(reading, HostReading::default());
        assert!(reading.samples_since(&reading, 1.0).values().all(Option::is_none));
    }

    #[test]
    fn each_file_is_read_by_name() {
        let root = copy(&[
            ("stat", "cpu  10 1 20 100 5 2 3 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"),
            ("meminfo", "MemTotal: 5 kB\nDirty:   12 kB\nWriteback: 3 kB\nWritebackTmp: 9 kB\n"),
            ("vmstat", "pgmajfault 4\npswpin 5\npswpout 6\n"),
            (
                "pressure/io",
                "some avg10=0.08 avg60=0.13 avg300=0.10 total=1000000\nfull avg10=0 total=400\n",
            ),
            (
                "diskstats",
                "   8       1 sda1 1 1 1 1 1 1 1 1 1 1 1\n 254 0 vda 155 14 10 156 32 66 20 70 0 99 22 1 5 13 12 47 25\n",
            ),
            ("9/stat", "9 (a) b c) S 1 9 9 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 5 0\n"),
        ]);
        let reader = HostReader::of_copy(root.path(), Some((254, 0)));
        let reading = reader.read();
        assert_eq!(reading.cpu_all_ticks, Some(148));
        assert_eq!(reading.cpu_busy_ticks, Some(36));
        assert_eq!(reading.cpu_steal_ticks, Some(7));
        assert_eq!(reading.dirty_bytes, Some(12 * 1024));
        assert_eq!(reading.writeback_bytes, Some(3 * 1024));
        assert_eq!(reading.swap_pages, Some(11));
        assert_eq!((reading.psi_io_some_us, reading.psi_io_full_us), (Some(1_000_000), Some(400)));
        assert_eq!(reading.psi_cpu_some_us, None);
        assert_eq!((reading.disk_read_bytes, reading.disk_write_bytes), (Some(5120), Some(10_240)));
        assert_eq!((reading.disk_busy_ms, reading.disk_flushes), (Some(99), Some(47)));
        assert_eq!(reader.process_ticks(9), Some(10));
        assert_eq!(reader.process_ticks(10), None);
    }

    #[test]
    fn a_counter_that_went_back_gives_no_rate() {
        let before = HostReading { psi_io_some_us: Some(500_000), ..HostReading::default() };
        let after = HostReading { psi_io_some_us: Some(750_000), ..HostReading::default() };
        let ratio = |now: &HostReading, then: &HostReading, seconds| {
            now.samples_since(then, seconds)["psi_io_some_ratio"]
        };
        assert!((ratio(&after, &before, 0.5).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(ratio(&before, &after, 0.5), None);
        assert_eq!(ratio(&after, &before, 0.0), None);
    }
}
