//! The real bench: PostgreSQL servers of our own, or ones that run already.
//!
//! 1. Order within a run of a managed arm: restore the data, start, `before_run`, warm up as
//!    declared, CHECKPOINT, counters, measure, counters, sizes, stop, `after_run`. It is the same in
//!    every arm.
//! 2. Data are loaded once for each distinct set of binaries and kept as a snapshot; every run of a
//!    managed arm begins with a copy of it, in the arm's own instance (two for each arm).
//! 3. Commands are argument vectors from the experiment file; no shell is involved.
//! 4. A server whose version is not the one seen on opening ends the session.
//! 5. Nothing that was started outlives the bench.

mod command;
mod full_disk;
mod managed;
mod scripts;
mod silence;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel::runtime::Runtime;

use super::document::{Arm, CacheState, Run, ScriptUse};
use super::plan::{ArmPlan, Place, Plan};
use super::run_files::RunFiles;
use super::session::{Bench, Failure, Observer, Opened, RunRequest};
use crate::driver::{self, Length, MemoryShortage, StopFlag};
use crate::initialise::read_scale;
use crate::measure::machine::{Finding, Grade, examine};
use crate::measure::sampler::{Sampler, SamplerOptions};
use crate::measure::summary::{Window, summarise};
use crate::target::TargetError;
use crate::target::postgres::address::Address;
use crate::target::postgres::client::{Client, ClientError};
use crate::target::postgres::counters::{Counters, relation_sizes};
use crate::target::postgres::server::default_parent;
use crate::target::postgres::session::PostgresTarget;
use crate::target::postgres::settings::Settings;
use crate::workload::scale;
use crate::workload::script::Workload;
use managed::ManagedArms;
use silence::Unanswered;
pub use silence::silence_of_running;

/// How long the checkpoint before a run may take: gigabytes on a slow disk do take minutes.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(600);

/// How often is told what is waited for.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// The two flags that end everything: servers look at the first, the driver hears the second.
#[derive(Clone, Debug, Default)]
pub struct Interruption {
    /// Set when the user wants out.
    pub flag: Arc<AtomicBool>,
    /// Wakes a run under way.
    pub driver: StopFlag,
}

impl Interruption {
    /// Ends everything.
    pub fn interrupt(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.driver.stop();
    }

    /// Whether the user wants out.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }
}

/// Turns the text of an arm's `url` into an address, as psql would.
pub type Resolve<'a> = &'a dyn Fn(&str) -> Result<Address, String>;

/// The bench.
pub struct Laboratory {
    plan: Plan,
    runtime: Arc<dyn Runtime>,
    interruption: Interruption,
    servers: Servers,
    /// The scripts as they were read; compiled when the scale is known.
    scripts: Vec<scripts::Source>,
    workload: Option<Arc<Workload>>,
    /// What each arm's server said of itself on opening.
    versions: Vec<String>,
    warned_of_checkpoint: bool,
    /// Where files of single runs go, if any are wanted.
    run_files: Option<RunFiles>,
    /// The server under way has left a question unanswered.
    is_silent: bool,
}

enum Servers {
    Managed(ManagedArms),
    Running(Vec<Address>),
}

/// A server that is up, for the length of one run.
struct Up {
    address: Address,
    /// What can be looked at besides the server's answers.
    sampled: SamplerOptions,
}

impl Laboratory {
    /// A bench for `plan`; nothing is started yet. What can be found wrong without a server is found
    /// here.
    ///
    /// # Errors
    /// When the URL of an arm is not understood, a directory of binaries holds none, or a script
    /// cannot be read or is wrong.
    pub fn new(
        plan: Plan,
        runtime: Arc<dyn Runtime>,
        interruption: Interruption,
        resolve: Resolve<'_>,
    ) -> Result<Self, Failure> {
        let mut addresses = Vec::new();
        for arm in &plan.arms {
            if let Place::Url(url) = &arm.place {
                addresses.push(resolve(url).map_err(|reason| {
                    Failure::Environment(format!("arm '{}': {reason}", arm.name))
                })?);
            }
        }
        let scripts = scripts::read(&plan)?;
        let servers = if addresses.is_empty() {
            Servers::Managed(ManagedArms::new(&plan, &runtime, &interruption)?)
        } else {
            Servers::Running(addresses)
        };
        Ok(Self {
            plan,
            runtime,
            interruption,
            servers,
            scripts,
            workload: None,
            versions: Vec::new(),
            warned_of_checkpoint: false,
            run_files: None,
            is_silent: false,
        })
    }

    /// Writes the files of single runs that the plan asks for into `directory`.
    pub fn keep_run_files(&mut self, directory: &Path) {
        let (has_log, has_histograms) = (self.plan.has_transaction_logs, self.plan.has_histograms);
        self.run_files = (has_log || has_histograms).then(|| RunFiles {
            directory: directory.to_path_buf(),
            has_log,
            has_histograms,
        });
    }

    fn arm(&self, index: u32) -> Result<&ArmPlan, Failure> {
        self.plan
            .arms
            .get(index as usize)
            .ok_or_else(|| Failure::Environment(format!("there is no arm {index}")))
    }

    /// An error is the user's wish where the user has spoken.
    fn failure(&self, error: impl std::fmt::Display) -> Failure {
        if self.interruption.is_set() {
            Failure::Interrupted
        } else {
            Failure::Environment(error.to_string())
        }
    }

    /// A session whose waits the user's wish ends at once.
    fn client(&self, address: &Address) -> Result<Client, TargetError> {
        Client::connect_heeding(address, &self.runtime, &self.interruption.flag)
    }

    /// What an arm's server says of itself, and the scale of its tables where scripts may read it.
    fn describe(&self, index: usize, address: &Address) -> Result<(Arm, Option<u64>), Failure> {
        let arm = self.arm(u32::try_from(index).unwrap_or(u32::MAX))?;
        let named =
            |error: &dyn std::fmt::Display| self.failure(format!("arm '{}': {error}", arm.name));
        let mut client = self.client(address).map_err(|error| named(&error))?;
        let settings = Settings::read(&mut client).map_err(|error| named(&error))?;
        let scale = read_scale(&mut client).map_err(|error| named(&error))?;
        let scale = scale::resolve(scale, self.plan.scale, self.plan.needs_tables())
            .map_err(|error| named(&error))?;
        let managed = match &self.servers {
            Servers::Managed(managed) => Some(managed.facts(index)),
            Servers::Running(_) => None,
        };
        let description = Arm {
            name: arm.name.clone(),
            role: arm.role,
            kind: if managed.is_some() { "managed" } else { "url" }.to_owned(),
            address: managed
                .as_ref()
                .map_or_else(|| address.to_string(), |facts| facts.binaries.clone()),
            server_version: Some(settings.version),
            server_version_num: Some(settings.version_num),
            declared_settings: arm.settings.clone(),
            captured_settings: settings.values,
            environment_names: arm.environment.keys().cloned().collect(),
            build_options: managed.as_ref().and_then(|facts| facts.build_options.clone()),
            data_hash: managed.and_then(|facts| facts.data_hash),
        };
        Ok((description, scale))
    }

    /// Brings the arm's server up with its data as declared.
    fn bring_up(
        &mut self,
        request: &RunRequest,
        observer: &mut dyn Observer,
    ) -> Result<Up, Failure> {
        let arm = request.planned.arm as usize;
        match &mut self.servers {
            Servers::Managed(managed) => {
                let drop_cache = self.plan.cache_state == CacheState::Cold;
                let keeps_data = self.plan.cache_state == CacheState::CarriedOver;
                let place = managed.start(
                    arm,
                    request.planned.instance,
                    drop_cache,
                    keeps_data,
                    observer,
                )?;
                let sampled = SamplerOptions {
                    data_directory: Some(place.data_directory),
                    server_process: place.process,
                    address: Some(place.address.clone()),
                    log: Some(place.log),
                };
                Ok(Up { address: place.address, sampled })
            }
            Servers::Running(addresses) => match addresses.get(arm) {
                Some(address) => Ok(Up {
                    address: address.clone(),
                    sampled: SamplerOptions::of_running(
                        address,
                        &self.runtime,
                        &self.interruption.flag,
                    ),
                }),
                None => Err(Failure::Environment(format!("there is no arm {arm}"))),
            },
        }
    }

    fn measure_up(
        &mut self,
        request: &RunRequest,
        up: Up,
        observer: &mut dyn Observer,
    ) -> Result<Run, Failure> {
        let arm = self.arm(request.planned.arm)?.clone();
        let in_arm = |this: &Self, error: &dyn std::fmt::Display| {
            this.failure(format!("arm '{}', run {}: {error}", arm.name, request.index + 1))
        };
        let mut client = self.client(&up.address).map_err(|error| in_arm(self, &error))?;
        let version = client
            .value("select version()")
            .map_err(|error| in_arm(self, &error))?
            .unwrap_or_default();
        if let Some(seen) = self.versions.get(request.planned.arm as usize)
            && *seen != version
        {
            return Err(in_arm(
                self,
                &format!("the server has become another one: it was '{seen}' and is '{version}'"),
            ));
        }
        let warm_up_ns = self.plan.warm_up_ns();
        if warm_up_ns > 0 {
            observer.stage(&format!("warming up '{}'", arm.name), Some(warm_up_ns));
            // Other keys than those of the measured part, the same for every arm of the block.
            let seed = request.seed ^ 0x5851_f42d_4c95_7f2d;
            let data = self
                .drive(&up.address, warm_up_ns, seed, observer)
                .map_err(|e| in_arm(self, &e))?;
            if data.was_interrupted {
                return Err(Failure::Interrupted);
            }
            if let Some(reason) = self.silence(request, &data, &mut client) {
                return Err(in_arm(self, &format!("while warming up, {reason}")));
            }
            if let Some(abort) = data.aborts.first() {
                self.is_silent = true;
                return Err(in_arm(
                    self,
                    &format!("client {} gave up while warming up: {}", abort.client, abort.reason),
                ));
            }
        }
        observer.stage(&format!("checkpoint in '{}'", arm.name), None);
        if let Err(error) = self.checkpoint(request, &up.address, &arm.name, observer) {
            if matches!(self.servers, Servers::Managed(_)) || error.sqlstate().is_none() {
                return Err(in_arm(self, &error));
            }
            if !self.warned_of_checkpoint {
                self.warned_of_checkpoint = true;
                observer.remark(&format!(
                    "no CHECKPOINT before the runs of '{}' ({error}): runs begin at different \
                     points of the checkpoint cycle",
                    arm.name
                ));
            }
        }
        let before = Counters::read(&mut client).map_err(|error| in_arm(self, &error))?;
        let sizes_before = relation_sizes(&mut client).unwrap_or_default();
        if self.interruption.is_set() {
            return Err(Failure::Interrupted);
        }
        observer.stage(
            &format!("run {}: measuring '{}'", request.index + 1, arm.name),
            Some(self.plan.duration_ns),
        );
        let sampler = Sampler::start(up.sampled, &self.runtime)
            .map_err(|error| in_arm(self, &format!("sampling: {error}")))?;
        let data = self.drive(&up.address, self.plan.duration_ns, request.seed, observer);
        let data = match data {
            Ok(data) => data,
            Err(error) => {
                // Its tasks end with it.
                let _ = sampler.finish(self.runtime.now(), Duration::ZERO);
                return Err(in_arm(self, &error));
            }
        };
        let window = Window::measured(&data);
        let mut run = summarise(&data, window);
        run.index = request.index;
        run.block = request.block;
        run.position = request.position;
        run.arm = request.planned.arm;
        run.instance = request.planned.instance;
        run.server_version = Some(version);
        if let Some(abort) = data.aborts.first() {
            // A server that crashed may recover for long before it hears of a shutdown.
            self.is_silent = true;
            observer.remark(&format!(
                "'{}': {} of {} clients gave up, the first: {}",
                arm.name,
                data.aborts.len(),
                data.clients,
                abort.reason
            ));
            if let Some(reason) = &mut run.incomplete {
                *reason = format!("{reason}: {}", abort.reason);
            }
        }
        let origin = data.origin.plus_nanos(window.start_ns);
        let clock_jump_ns = run.clock_jump_ns;
        sampler.finish(origin, Duration::from_nanos(window.duration_ns())).apply(&mut run);
        run.clock_jump_ns = run.clock_jump_ns.max(clock_jump_ns);
        if let Some(files) = &self.run_files {
            // The record does without them; a directory that takes nothing ends the session when the
            // record itself is written.
            let (arrival, tries) = (self.plan.arrival, self.plan.max_tries);
            if let Err(error) = files.write(request.index, &data, arrival, tries) {
                observer.remark(&format!(
                    "the files of run {} are not kept: {error}",
                    request.index + 1
                ));
            }
        }
        match self.silence(request, &data, &mut client) {
            Some(reason) => run.incomplete = Some(reason),
            // Who wants out does not wait for what cannot answer.
            None if data.was_interrupted && self.is_suspended(request) => {}
            None => self.outcomes(&mut run, &mut client, &before, &sizes_before),
        }
        if !self.is_silent && !data.was_interrupted && self.is_suspended(request) {
            observer.remark(&format!(
                "'{}', run {}: the server answers, and processes of it are stopped (SIGSTOP, or a \
                 debugger); what was measured is not the whole server",
                arm.name,
                request.index + 1
            ));
        }
        if let Servers::Managed(managed) = &mut self.servers {
            run.data_hash = managed.facts(request.planned.arm as usize).data_hash;
            if let Err(error) =
                managed.check_alive(request.planned.arm as usize, request.planned.instance)
            {
                // The reason behind whatever the clients saw; the log's tail is for the screen.
                let error = error.to_string();
                let first = error.lines().next().unwrap_or_default();
                run.incomplete = Some(first.split(';').next().unwrap_or(first).to_owned());
                observer.remark(&error);
            }
        }
        Ok(run)
    }

    /// In a session of its own, which the user's wish ends at once.
    fn checkpoint(
        &mut self,
        request: &RunRequest,
        address: &Address,
        name: &str,
        observer: &mut dyn Observer,
    ) -> Result<(), ClientError> {
        let mut client = self.client(address)?;
        client.set_timeout(Some(CHECKPOINT_TIMEOUT));
        client
            .execute_telling("checkpoint", TELL_EVERY, &mut |waited| {
                let is_suspended = self.is_suspended(request);
                observer.remark(&format!(
                    "the checkpoint in '{name}' has taken {} s{}; it is waited for {} s more at most",
                    waited.as_secs(),
                    if is_suspended {
                        ": processes of the server are stopped (SIGSTOP, or a debugger)"
                    } else {
                        ""
                    },
                    CHECKPOINT_TIMEOUT.saturating_sub(waited).as_secs()
                ));
            })
            .map(|_| ())
    }

    fn drive(
        &self,
        address: &Address,
        duration_ns: u64,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<driver::RunData, driver::DriverError> {
        let target = Arc::new(PostgresTarget::new(address.clone()));
        let workload = self.workload.clone().unwrap_or_default();
        let mut plan = driver::Plan::new(
            workload,
            target,
            Length::Duration(Duration::from_nanos(duration_ns)),
        );
        plan.clients = self.plan.clients;
        plan.threads = self.plan.threads;
        plan.arrival = self.plan.arrival;
        plan.grace = Duration::from_nanos(self.plan.grace_ns);
        plan.latency_limit = self.plan.latency_limit_ns.map(Duration::from_nanos);
        plan.max_tries = self.plan.max_tries;
        plan.seed = seed;
        plan.query_mode = self.plan.query_mode;
        let heard = Heard(RefCell::new(observer));
        driver::run(plan, Arc::clone(&self.runtime), &heard, &self.interruption.driver)
    }

    /// Counters and sizes; a server that is gone has none, which is no error of its own.
    fn outcomes(
        &self,
        run: &mut Run,
        client: &mut Client,
        before: &Counters,
        sizes_before: &BTreeMap<String, Option<f64>>,
    ) {
        // Also of a run that the user cut short, for as long as somebody who wants out may wait.
        client.heed(None);
        client.set_timeout(Some(if self.interruption.is_set() {
            Duration::from_secs(1)
        } else {
            Duration::from_secs(10)
        }));
        let Ok(after) = Counters::read(client) else { return };
        run.counters = after.since(before);
        if let (Some(end), Some(start)) = (after.wal_position_bytes, before.wal_position_bytes) {
            // Below 2^53 for all logs there are.
            #[allow(clippy::cast_precision_loss, reason = "a log position fits a double")]
            run.outcomes
                .insert("wal_bytes".to_owned(), end.checked_sub(start).map(|bytes| bytes as f64));
        }
        if let Ok(sizes) = relation_sizes(client) {
            for (name, size) in sizes {
                if let (Some(Some(before)), Some(after)) = (sizes_before.get(&name), size) {
                    run.outcomes.insert(format!("growth_of_{name}"), Some(after - before));
                }
                run.outcomes.insert(name, size);
            }
        }
    }

    /// Whether processes of a server of our own are stopped.
    fn is_suspended(&mut self, request: &RunRequest) -> bool {
        match &mut self.servers {
            Servers::Managed(managed) => {
                managed.is_suspended(request.planned.arm as usize, request.planned.instance)
            }
            Servers::Running(_) => false,
        }
    }

    /// The reason why the run does not count, where the server left transactions and a question of
    /// ours unanswered.
    fn silence(
        &mut self,
        request: &RunRequest,
        data: &driver::RunData,
        client: &mut Client,
    ) -> Option<String> {
        let unanswered = Unanswered::of(data)?;
        let is_suspended = self.is_suspended(request);
        if !is_suspended && silence::answers(client) {
            return None;
        }
        self.is_silent = true;
        Some(unanswered.reason(is_suspended))
    }

    fn take_down(
        &mut self,
        request: &RunRequest,
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        let is_silent = std::mem::take(&mut self.is_silent);
        let (arm, instance) = (request.planned.arm as usize, request.planned.instance);
        match &mut self.servers {
            Servers::Managed(managed) if is_silent => {
                managed.stop_unanswering(arm, instance, observer)
            }
            Servers::Managed(managed) => managed.stop(arm, instance),
            Servers::Running(_) => Ok(()),
        }
    }

    fn run_command(&self, arm: &ArmPlan, command: Option<&Vec<String>>) -> Result<(), Failure> {
        let Some(words) = command else { return Ok(()) };
        command::run(words, self.runtime.as_ref(), &self.interruption.flag)
            .map_err(|error| self.failure(format!("arm '{}': {error}", arm.name)))
    }
}

impl Bench for Laboratory {
    fn open(&mut self, observer: &mut dyn Observer) -> Result<Opened, Failure> {
        observer.stage("looking at this machine", None);
        let mut examination = examine(&default_parent(), &self.runtime);
        if let Servers::Running(addresses) = &self.servers
            && !addresses.iter().all(Address::is_local)
        {
            examination.machine.warnings.push(
                "the servers are on other machines: what is said here is of the one that ran the \
                 load"
                    .to_owned(),
            );
        }
        for finding in examination.findings.iter().filter(|finding| finding.grade == Grade::Bad) {
            let Finding { name, found, remedy, .. } = finding;
            observer.remark(&format!("this machine, {name}: {found}; {remedy}"));
        }
        if let Servers::Managed(managed) = &mut self.servers {
            managed.prepare(observer)?;
        }
        let mut arms = Vec::new();
        let mut scales = Vec::new();
        for index in 0..self.plan.arms.len() {
            let address = match &mut self.servers {
                Servers::Managed(managed) => {
                    managed.start(index, 0, false, false, observer)?.address
                }
                Servers::Running(addresses) => addresses[index].clone(),
            };
            let described = self.describe(index, &address);
            if let Servers::Managed(managed) = &mut self.servers {
                managed.stop(index, 0)?;
            }
            let (arm, scale) = described?;
            arms.push(arm);
            scales.push(scale);
        }
        if scales.windows(2).any(|two| two[0] != two[1]) {
            let shown: Vec<String> = scales
                .iter()
                .map(|scale| scale.map_or_else(|| "none".to_owned(), |scale| scale.to_string()))
                .collect();
            return Err(Failure::Environment(format!(
                "the arms' tables have different scales ({}): load them alike (evenkeel init)",
                shown.join(", ")
            )));
        }
        self.versions =
            arms.iter().map(|arm| arm.server_version.clone().unwrap_or_default()).collect();
        let scale = scales.first().copied().flatten();
        let (workload, uses) = scripts::compile(&self.plan, &self.scripts, scale)?;
        for remark in &workload.remarks {
            observer.remark(&format!("note: {remark}"));
        }
        self.workload = Some(Arc::new(workload));
        Ok(Opened { arms, scripts: uses, machine: examination.machine })
    }

    fn measure(
        &mut self,
        request: &RunRequest,
        observer: &mut dyn Observer,
    ) -> Result<Run, Failure> {
        if self.interruption.is_set() {
            return Err(Failure::Interrupted);
        }
        let arm = self.arm(request.planned.arm)?.clone();
        let up = self.bring_up(request, observer)?;
        let log = up.sampled.log.clone().filter(|_| matches!(self.servers, Servers::Managed(_)));
        let log_start = log.as_ref().and_then(|log| Some(std::fs::metadata(log).ok()?.len()));
        let mut run = self
            .run_command(&arm, arm.before_run.as_ref())
            .and_then(|()| self.measure_up(request, up, observer));
        if let Some(log) = log {
            run = full_disk::named(run, &default_parent(), &log, log_start.unwrap_or(0));
        }
        let down = self.take_down(request, observer);
        let run = run?;
        // A measured run is not lost to a server that would not stop or a command that failed.
        if let Err(failure) = down.and_then(|()| self.run_command(&arm, arm.after_run.as_ref())) {
            let mut run = run;
            run.incomplete.get_or_insert(failure.to_string());
            return Ok(run);
        }
        Ok(run)
    }

    fn close(&mut self, observer: &mut dyn Observer) {
        let Servers::Managed(managed) = &mut self.servers else { return };
        if managed.is_empty() {
            return;
        }
        let text = "stopping the servers and removing their data";
        if self.interruption.is_set() {
            // Gigabytes take seconds, and who wants out shall know what for.
            observer.remark(text);
        } else {
            observer.stage(text, None);
        }
        for stayed in managed.remove() {
            observer.remark(&stayed);
        }
    }
}

/// What of a run is worth telling in a session.
struct Heard<'a>(RefCell<&'a mut dyn Observer>);

impl driver::Observer for Heard<'_> {
    fn memory_short(&self, shortage: &MemoryShortage) {
        self.0.borrow_mut().remark(&format!("warning: at this speed the run {shortage}"));
    }
}

/// The scripts' record.
fn script_use(name: &str, weight: u32, text: &str) -> ScriptUse {
    ScriptUse::of(name, weight, text)
}
