//! Looks at machine and server once a second while a run is measured.
//!
//! Two tasks, so that a server that does not answer cannot keep the machine from being looked at.
//! A sample covers the time since the one before it and belongs to the second its middle lies in.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::runtime::{Event as Wake, Instant, Runtime, TaskHandle, WallTime};

use super::host::{HostReader, HostReading, TICKS_PER_SECOND, as_float, delta};
use crate::experiment::document::{Event, HostSummary, Run};
use crate::target::postgres::address::Address;
use crate::target::postgres::client::Client;
use crate::target::postgres::counters;
use crate::target::postgres::server::{postmaster_of, process_tree};
use crate::target::postgres::server_log::LogFollower;

/// Between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long the server may take to answer before its sample is given up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The clocks may part by this much in a second before it counts as a jump: time daemons slew by at
/// most half of it.
const JUMP_NS: u64 = 1_000_000;

/// What is looked at.
#[derive(Clone, Debug, Default)]
pub struct SamplerOptions {
    /// Where the data are, when on this machine: for disk figures.
    pub data_directory: Option<PathBuf>,
    /// The postmaster, when on this machine: its processes are not foreign.
    pub server_process: Option<u32>,
    /// Where the server can be asked.
    pub address: Option<Address>,
    /// The log of a managed server.
    pub log: Option<PathBuf>,
}

/// Looks once a second until it is finished.
pub struct Sampler {
    shared: Arc<Shared>,
    tasks: Vec<(TaskHandle, Arc<dyn Wake>)>,
    log: Option<LogFollower>,
    reader: HostReader,
    options: SamplerOptions,
    runtime: Arc<dyn Runtime>,
}

/// All that was seen, on the run's time axis.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    /// By second since measuring began.
    pub seconds: BTreeMap<u32, BTreeMap<String, Option<f64>>>,
    /// Over the measured part.
    pub host: HostSummary,
    /// From the server's log, and jumps of the clock; in order of start.
    pub events: Vec<Event>,
    /// Largest jump of the wall clock against the monotonic clock between two samples.
    pub clock_jump_ns: Option<u64>,
    /// The server crashed or was started anew within the measured part.
    pub server_restarted: bool,
}

#[derive(Default)]
struct Shared {
    /// Heard by the session that asks the server as well: nobody waits for an answer then.
    is_over: Arc<AtomicBool>,
    host: Mutex<Vec<HostSample>>,
    server: Mutex<Vec<ServerSample>>,
    /// Processor time of the sampling tasks, in nanoseconds.
    cost_ns: Mutex<Option<u64>>,
}

#[derive(Clone, Debug)]
struct HostSample {
    at: Instant,
    wall: WallTime,
    reading: HostReading,
    /// Busy time of ours and the server's, where looked up.
    known_ticks: Option<u64>,
    /// How often processors were slowed down for heat, where looked up.
    thermal_throttles: Option<u64>,
}

/// Totals by name; none where the server did not answer.
#[derive(Clone, Debug)]
struct ServerSample {
    at: Instant,
    totals: BTreeMap<String, Option<u64>>,
}

impl SamplerOptions {
    /// For a server that somebody else runs: everything that can be seen of it from here. Of a server
    /// on another machine, or one whose processes are not of this machine's (a container, a tunnel),
    /// only its answers are looked at, and `server_process` stays `None`. Its waits end once `leave` is set.
    #[must_use]
    pub fn of_running(
        address: &Address,
        runtime: &Arc<dyn Runtime>,
        leave: &Arc<AtomicBool>,
    ) -> Self {
        let mut options = Self { address: Some(address.clone()), ..Self::default() };
        if !address.is_local() {
            return options;
        }
        let asking = address.clone().with_connect_timeout(ANSWER_TIMEOUT);
        let Ok(mut client) = Client::connect_heeding(&asking, runtime, leave) else {
            return options;
        };
        client.set_timeout(Some(ANSWER_TIMEOUT));
        let backend = client.process_id().and_then(|process| u32::try_from(process).ok());
        options.server_process =
            backend.and_then(|backend| postmaster_of(Path::new("/proc"), backend));
        if options.server_process.is_some() {
            // Only superusers and members of pg_read_all_settings may ask.
            options.data_directory = client
                .value("show data_directory")
                .ok()
                .flatten()
                .map(PathBuf::from)
                .filter(|directory| directory.is_dir());
        }
        options
    }
}

impl Sampler {
    /// Takes the first sample, and starts.
    ///
    /// # Errors
    /// When the system refuses another thread, or the log cannot be looked at.
    pub fn start(options: SamplerOptions, runtime: &Arc<dyn Runtime>) -> io::Result<Self> {
        let reader = HostReader::of_this_machine(options.data_directory.as_deref());
        let log = options.log.as_deref().map(LogFollower::from_end).transpose()?;
        let shared = Arc::new(Shared::default());
        shared.look_at_host(&reader, options.server_process, true, runtime.as_ref());
        let mut sampler =
            Self { shared, tasks: Vec::new(), log, reader, options, runtime: Arc::clone(runtime) };
        let started = sampler.spawn_tasks();
        match started {
            Ok(()) => Ok(sampler),
            Err(error) => {
                sampler.end_tasks();
                Err(error)
            }
        }
    }

    /// Takes the last sample, and puts everything on the axis that begins at `origin`; what lies
    /// outside of the measured part counts for events only.
    #[must_use]
    pub fn finish(mut self, origin: Instant, duration: Duration) -> Sampled {
        self.shared.look_at_host(
            &self.reader,
            self.options.server_process,
            true,
            self.runtime.as_ref(),
        );
        self.end_tasks();
        let lock = |samples: &Mutex<Vec<HostSample>>| {
            std::mem::take(&mut *samples.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let mut host = lock(&self.shared.host);
        host.sort_by_key(|sample| sample.at);
        let server =
            std::mem::take(&mut *self.shared.server.lock().unwrap_or_else(PoisonError::into_inner));
        let cost_ns = *self.shared.cost_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sampled = put_on_axis(&host, &server, cost_ns, origin, duration);
        if let (Some(log), Some(first)) = (self.log.as_mut(), host.first()) {
            let shift = i64::try_from(origin.as_nanos())
                .unwrap_or(i64::MAX)
                .saturating_sub(i64::try_from(first.at.as_nanos()).unwrap_or(i64::MAX));
            let wall_origin =
                WallTime::from_unix_nanos(first.wall.as_unix_nanos().saturating_add(shift));
            // A log that cannot be read any more gives no events; the run is not lost for that.
            let events = log.take_events().unwrap_or_default();
            sampled.events.extend(events.iter().map(|event| event.on_axis(wall_origin)));
        }
        sampled.events.sort_by_key(|event| event.start_ns);
        let end_ns = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        sampled.server_restarted = sampled.events.iter().any(|event| {
            matches!(event.kind.as_str(), "crash" | "restart")
                && (0..=end_ns).contains(&event.end_ns)
        });
        sampled
    }

    fn spawn_tasks(&mut self) -> io::Result<()> {
        let (shared, reader, runtime) =
            (Arc::clone(&self.shared), self.reader.clone(), Arc::clone(&self.runtime));
        let process = self.options.server_process;
        self.spawn("sample-host", move |wake| {
            shared.every_interval(runtime.as_ref(), wake, || {
                shared.look_at_host(&reader, process, false, runtime.as_ref());
            });
        })?;
        let Some(address) = self.options.address.clone() else { return Ok(()) };
        let (shared, runtime) = (Arc::clone(&self.shared), Arc::clone(&self.runtime));
        self.spawn("sample-server", move |wake| {
            let mut asker = ServerAsker {
                address,
                client: None,
                runtime: Arc::clone(&runtime),
                leave: Arc::clone(&shared.is_over),
            };
            let take = |asker: &mut ServerAsker| {
                let totals = match asker.ask() {
                    Some(totals) => totals,
                    // Not unanswered, only not waited for.
                    None if shared.is_over.load(Ordering::SeqCst) => return,
                    None => BTreeMap::new(),
                };
                let sample = ServerSample { at: runtime.now(), totals };
                shared.server.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
            };
            take(&mut asker);
            shared.every_interval(runtime.as_ref(), wake, || take(&mut asker));
        })
    }

    fn spawn(
        &mut self,
        name: &str,
        body: impl FnOnce(&dyn Wake) + Send + 'static,
    ) -> io::Result<()> {
        let wake = self.runtime.event();
        let (theirs, shared) = (Arc::clone(&wake), Arc::clone(&self.shared));
        let task = self.runtime.spawn(
            name,
            Box::new(move || {
                body(theirs.as_ref());
                if let Some(cost) = own_cpu_ns() {
                    let mut sum = shared.cost_ns.lock().unwrap_or_else(PoisonError::into_inner);
                    *sum = Some(sum.unwrap_or(0).saturating_add(cost));
                }
            }),
        )?;
        self.tasks.push((task, wake));
        Ok(())
    }

    fn end_tasks(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for (_, wake) in &self.tasks {
            wake.notify();
        }
        for (task, _) in self.tasks.drain(..) {
            // A task that panicked has left its samples up to then.
            let _ = task.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end_tasks();
    }
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Sampled {
    /// Puts everything where it belongs in the run, and labels its stall episodes with the kinds of
    /// events that overlap them.
    pub fn apply(self, run: &mut Run) {
        for second in &mut run.timeline {
            if let Some(samples) = self.seconds.get(&second.second) {
                second.samples.extend(samples.clone());
            }
        }
        run.events.extend(self.events);
        run.events.sort_by_key(|event| event.start_ns);
        for episode in &mut run.episodes {
            let start = i64::try_from(episode.start_ns).unwrap_or(i64::MAX);
            let end = i64::try_from(episode.end_ns).unwrap_or(i64::MAX);
            let mut kinds: Vec<String> = run
                .events
                .iter()
                .filter(|event| event.start_ns <= end && event.end_ns >= start)
                .map(|event| event.kind.clone())
                .collect();
            kinds.sort();
            kinds.dedup();
            episode.coincides_with = kinds;
        }
        run.host = self.host;
        run.clock_jump_ns = self.clock_jump_ns;
        run.server_restarted |= self.server_restarted;
    }
}

impl Shared {
    fn look_at_host(
        &self,
        reader: &HostReader,
        server: Option<u32>,
        with_processes: bool,
        runtime: &dyn Runtime,
    ) {
        // Walking all processes is too dear to be done each second.
        let known_ticks = if with_processes {
            server.and_then(|server| {
                let ours = reader.process_ticks(std::process::id())?;
                let theirs: u64 =
                    process_tree(server).into_iter().filter_map(|p| reader.process_ticks(p)).sum();
                Some(ours.saturating_add(theirs))
            })
        } else {
            None
        };
        let thermal_throttles = if with_processes { reader.thermal_throttles() } else { None };
        let reading = reader.read();
        let (at, wall) = (runtime.now(), runtime.wall());
        let sample = HostSample { at, wall, reading, known_ticks, thermal_throttles };
        self.host.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
    }

    fn every_interval(&self, runtime: &dyn Runtime, wake: &dyn Wake, mut look: impl FnMut()) {
        let mut next = runtime.now().plus(INTERVAL);
        while !self.is_over.load(Ordering::SeqCst) {
            if wake.wait_until(Some(next)) {
                continue;
            }
            look();
            // What was missed is not made up for.
            next = next.plus(INTERVAL).max(runtime.now());
        }
    }
}

/// Asks the server in a session of its own, opened again when it breaks.
struct ServerAsker {
    address: Address,
    client: Option<Client>,
    runtime: Arc<dyn Runtime>,
    leave: Arc<AtomicBool>,
}

impl ServerAsker {
    fn ask(&mut self) -> Option<BTreeMap<String, Option<u64>>> {
        if self.client.is_none() {
            let address = self
                .address
                .clone()
                .with_connect_timeout(ANSWER_TIMEOUT)
                .with_application_name("evenkeel sampler");
            let mut client = Client::connect_heeding(&address, &self.runtime, &self.leave).ok()?;
            client.set_timeout(Some(ANSWER_TIMEOUT));
            if client.server_version() >= 150_000 {
                client.execute("set stats_fetch_consistency = none").ok()?;
            }
            self.client = Some(client);
        }
        let result = self.client.as_mut().map(counters::live)?;
        if result.is_err() {
            self.client = None;
        }
        result.ok()
    }
}

fn put_on_axis(
    host: &[HostSample],
    server: &[ServerSample],
    cost_ns: Option<u64>,
    origin: Instant,
    duration: Duration,
) -> Sampled {
    let mut sampled = Sampled::default();
    let end = origin.plus(duration);
    for pair in host.windows(2) {
        let [before, now] = pair else { continue };
        let length_ns = now.at.nanos_since(before.at);
        let jump = clock_jump(before, now);
        sampled.clock_jump_ns = Some(sampled.clock_jump_ns.unwrap_or(0).max(jump));
        if jump > JUMP_NS.max(length_ns / 1000) {
            let since = |at: Instant| signed_since(at, origin);
            sampled.events.push(Event {
                kind: "clock_jump".to_owned(),
                start_ns: since(before.at),
                end_ns: since(now.at),
                figures: BTreeMap::from([("jump_ns".to_owned(), as_float(jump))]),
                text: format!("the wall clock moved by {jump} ns against the monotonic clock"),
            });
        }
        // A sliver between the last regular sample and the final one says nothing.
        if length_ns >= 100_000_000
            && let Some(second) = second_of(before.at, now.at, origin, end)
        {
            let samples = now.reading.samples_since(&before.reading, as_float(length_ns) / 1e9);
            sampled.seconds.entry(second).or_default().extend(samples);
        }
    }
    for pair in server.windows(2) {
        let [before, now] = pair else { continue };
        let length_ns = now.at.nanos_since(before.at);
        if let Some(second) = second_of(before.at, now.at, origin, end) {
            let seconds = as_float(length_ns) / 1e9;
            let samples = sampled.seconds.entry(second).or_default();
            // A server that did not answer has not stood still: its rates are unknown.
            samples.entry("wal_bytes_per_s".to_owned()).or_insert(None);
            for (name, total) in &now.totals {
                let earlier = before.totals.get(name).copied().flatten();
                // Counters go back when they are reset.
                let rate = delta(*total, earlier).filter(|_| length_ns > 0).map(|it| it / seconds);
                samples.insert(format!("{name}_per_s"), rate);
            }
        }
    }
    sampled.host = summary(host, cost_ns, origin, end);
    sampled
}

/// Over the samples that enclose the measured part most closely.
fn summary(
    host: &[HostSample],
    cost_ns: Option<u64>,
    origin: Instant,
    end: Instant,
) -> HostSummary {
    let (Some(very_first), Some(very_last)) = (host.first(), host.last()) else {
        return HostSummary::default();
    };
    let first = host.iter().rfind(|sample| sample.at <= origin).unwrap_or(very_first);
    let last = host.iter().find(|sample| sample.at >= end).unwrap_or(very_last);
    let within = host.iter().filter(|sample| sample.at >= first.at && sample.at <= last.at);
    let seconds = as_float(last.at.nanos_since(first.at)) / 1e9;
    let samples = last.reading.samples_since(&first.reading, seconds);
    let value = |name: &str| samples.get(name).copied().flatten();
    // Processes are looked up at the very ends only.
    let whole_seconds = as_float(very_last.at.nanos_since(very_first.at)) / 1e9;
    let foreign_cpus = delta(very_last.reading.cpu_busy_ticks, very_first.reading.cpu_busy_ticks)
        .zip(delta(very_last.known_ticks, very_first.known_ticks))
        .filter(|_| whole_seconds > 0.0)
        .map(|(busy, known)| (busy - known).max(0.0) / TICKS_PER_SECOND / whole_seconds);
    let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let swap_bytes = last
        .reading
        .swap_pages
        .zip(first.reading.swap_pages)
        .and_then(|(now, then)| now.checked_sub(then))
        .map(|pages| pages.saturating_mul(page_bytes));
    HostSummary {
        steal_ratio: value("steal_ratio"),
        foreign_cpus,
        psi_io_some_ratio: value("psi_io_some_ratio"),
        psi_cpu_some_ratio: value("psi_cpu_some_ratio"),
        psi_memory_some_ratio: value("psi_memory_some_ratio"),
        dirty_bytes_max: within.clone().filter_map(|sample| sample.reading.dirty_bytes).max(),
        swap_bytes,
        disk_free_bytes_min: within.filter_map(|sample| sample.reading.disk_free_bytes).min(),
        thermal_throttles: very_last
            .thermal_throttles
            .zip(very_first.thermal_throttles)
            .and_then(|(now, then)| now.checked_sub(then)),
        sampler_cpu_ratio: cost_ns
            .filter(|_| whole_seconds > 0.0)
            .map(|cost| as_float(cost) / 1e9 / whole_seconds),
    }
}

/// The second in which the middle of a sample lies, where that is within the measured part.
fn second_of(before: Instant, now: Instant, origin: Instant, end: Instant) -> Option<u32> {
    let middle = before.plus_nanos(now.nanos_since(before) / 2);
    if middle < origin || middle >= end {
        return None;
    }
    u32::try_from(middle.nanos_since(origin) / 1_000_000_000).ok()
}

/// By how much the wall clock went more or less far than the monotonic one.
fn clock_jump(before: &HostSample, now: &HostSample) -> u64 {
    let wall = i128::from(now.wall.as_unix_nanos()) - i128::from(before.wall.as_unix_nanos());
    let monotonic = i128::from(now.at.nanos_since(before.at));
    u64::try_from((wall - monotonic).abs()).unwrap_or(u64::MAX)
}

fn signed_since(at: Instant, origin: Instant) -> i64 {
    let (at, origin) = (i128::from(at.as_nanos()), i128::from(origin.as_nanos()));
    i64::try_from(at - origin).unwrap_or(if at > origin { i64::MAX } else { i64::MIN })
}

/// Processor time of the calling task so far, as the kernel's scheduler counts it.
fn own_cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use evenkeel::runtime::OsRuntime;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn sample(at: u64, wall: i64, dirty: u64) -> HostSample {
        HostSample {
            at: Instant::from_nanos(at),
            wall: WallTime::from_unix_nanos(wall),
            reading: HostReading {
                dirty_bytes: Some(dirty),
                psi_io_some_us: Some(at / 2000),
                ..HostReading::default()
            },
            known_ticks: None,
            thermal_throttles: None,
        }
    }

    #[test]
    fn samples_fall_into_the_second_of_their_middle_and_levels_outside_do_not_count() {
        let host: Vec<HostSample> = (0..6_u32)
            .map(|n| {
                let at = 10 * SECOND + u64::from(n) * SECOND + SECOND / 4;
                sample(at, i64::try_from(at).unwrap(), u64::from(n) * 100)
            })
            .collect();
        let origin = Instant::from_nanos(12 * SECOND);
        let sampled = put_on_axis(&host, &[], Some(5_000_000), origin, Duration::from_secs(2));
        assert_eq!(sampled.seconds.keys().copied().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(sampled.seconds[&0]["dirty_bytes"], Some(300.0));
        assert!((sampled.host.psi_io_some_ratio.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(sampled.host.dirty_bytes_max, Some(400));
        assert_eq!(sampled.host.steal_ratio, None);
        assert!((sampled.host.sampler_cpu_ratio.unwrap() - 0.001).abs() < 1e-9);
        assert_eq!(sampled.clock_jump_ns, Some(0));
    }

    #[test]
    fn a_jump_of_the_wall_clock_is_an_event_with_its_size() {
        let host = [sample(0, 0, 0), sample(SECOND, 3_000_000_000, 0)];
        let origin = Instant::from_nanos(0);
        let sampled = put_on_axis(&host, &[], None, origin, Duration::from_secs(1));
        assert_eq!(sampled.clock_jump_ns, Some(2 * SECOND));
        assert_eq!(sampled.events[0].kind, "clock_jump");
    }

    #[test]
    fn a_position_of_the_log_that_is_unknown_gives_no_rate() {
        let at = |second: u64, wal_bytes| ServerSample {
            at: Instant::from_nanos(second * SECOND),
            totals: BTreeMap::from([("wal_bytes".to_owned(), wal_bytes)]),
        };
        let server = [at(0, Some(0)), at(1, Some(5000)), at(2, None), at(3, Some(9000))];
        let sampled =
            put_on_axis(&[], &server, None, Instant::from_nanos(0), Duration::from_secs(3));
        let rates: Vec<Option<f64>> =
            sampled.seconds.values().map(|second| second["wal_bytes_per_s"]).collect();
        assert_eq!(rates, [Some(5000.0), None, None]);
    }

    #[test]
    fn a_process_of_the_same_number_that_is_no_session_is_not_taken_for_the_server() {
        let proc = tempfile::tempdir().unwrap();
        let process = |number: u32, command: &str, stat: &str| {
            let place = proc.path().join(number.to_string());
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("cmdline"), command).unwrap();
            std::fs::write(place.join("stat"), stat).unwrap();
        };
        process(7, "postgres: me app [local] idle\0", "7 (postgres) S 5 7 7 0\n");
        process(8, "bash\0", "8 (bash) S 5 8 8 0\n");
        process(9, "postgres: me app [local] idle\0", "9 (postg");
        process(10, "postgres: me app [local] idle\0", "10 (postgres) S 1 7 7 0\n");
        let found: Vec<_> = (6..=10).map(|backend| postmaster_of(proc.path(), backend)).collect();
        assert_eq!(found, [None, Some(5), None, None, None]);
    }

    #[test]
    fn a_sampler_ends_at_once_and_knows_what_it_cost() {
        let runtime: Arc<dyn Runtime> = Arc::new(OsRuntime::new());
        let options = SamplerOptions {
            data_directory: Some(std::env::temp_dir()),
            server_process: Some(std::process::id()),
            ..SamplerOptions::default()
        };
        let origin = runtime.now();
        let sampler = Sampler::start(options, &runtime).unwrap();
        let sampled = sampler.finish(origin, Duration::from_secs(1));
        assert!(sampled.host.sampler_cpu_ratio.is_some());
        assert!(sampled.host.disk_free_bytes_min.is_some());
        assert!(!sampled.server_restarted);
    }
}
