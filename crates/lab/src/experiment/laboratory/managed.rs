//! Servers of our own: made once, restored for every run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel::runtime::Runtime;

use super::super::file::nearest;
use super::super::plan::{Place, Plan};
use super::super::session::{Failure, Observer};
use super::Interruption;
use crate::initialise::{InitialiseError, InitialiseOptions, Phase, estimated_bytes, initialise};
use crate::report::number;
use crate::target::postgres::address::Address;
use crate::target::postgres::binaries::{Binaries, BinariesError, Wanted};
use crate::target::postgres::client::{Client, quote_identifier, quote_literal};
use crate::target::postgres::server::{
    ManagedServer, ServerError, ServerOptions, Shutdown, default_parent, remove_leftovers,
};
use crate::target::postgres::snapshot::{Snapshot, free_bytes};

/// Physical copies of each arm.
const INSTANCES: usize = 2;

/// A fresh data directory with its first segments of the log, rounded up.
const BYTES_OF_EMPTY: u64 = 64_000_000;

/// All managed servers of a session.
pub(super) struct ManagedArms {
    arms: Vec<Arm>,
    snapshots: BTreeMap<PathBuf, Snapshot>,
    /// `None`: the workload has no tables of pgbench's.
    tables: Option<InitialiseOptions>,
    runtime: Arc<dyn Runtime>,
    interruption: Interruption,
}

struct Arm {
    name: String,
    wanted: Wanted,
    settings: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    binaries: Option<Binaries>,
    instances: Vec<ManagedServer>,
    has_data: [bool; INSTANCES],
}

/// What the record says of a managed arm.
pub(super) struct Facts {
    pub(super) binaries: String,
    pub(super) build_options: Option<String>,
    pub(super) data_hash: Option<String>,
}

/// Where a started server is.
pub(super) struct Started {
    pub(super) address: Address,
    pub(super) log: PathBuf,
    pub(super) data_directory: PathBuf,
    pub(super) process: Option<u32>,
}

impl ManagedArms {
    pub(super) fn new(
        plan: &Plan,
        runtime: &Arc<dyn Runtime>,
        interruption: &Interruption,
    ) -> Result<Self, Failure> {
        for arm in &plan.arms {
            // A directory is looked into at once; the rest may have to be brought.
            if let Place::Managed(Wanted::Directory(directory)) = &arm.place {
                Binaries::in_directory(directory).map_err(|error| {
                    Failure::Environment(format!("arm '{}': {error}", arm.name))
                })?;
            }
        }
        let arms = plan
            .arms
            .iter()
            .filter_map(|arm| match &arm.place {
                Place::Managed(wanted) => Some(Arm {
                    name: arm.name.clone(),
                    wanted: wanted.clone(),
                    settings: arm.settings.clone(),
                    environment: arm.environment.clone(),
                    binaries: None,
                    instances: Vec::new(),
                    has_data: [false; INSTANCES],
                }),
                Place::Url(_) => None,
            })
            .collect();
        Ok(Self {
            arms,
            snapshots: BTreeMap::new(),
            tables: plan.scale.map(|scale| InitialiseOptions {
                fillfactor: plan.fillfactor,
                ..InitialiseOptions::new(scale)
            }),
            runtime: Arc::clone(runtime),
            interruption: interruption.clone(),
        })
    }

    /// Finds binaries, loads the data once for each, and makes the instances.
    pub(super) fn prepare(&mut self, observer: &mut dyn Observer) -> Result<(), Failure> {
        for leftover in remove_leftovers(&default_parent(), self.runtime.as_ref()) {
            observer.remark(&leftover.to_string());
        }
        for arm in &mut self.arms {
            let flag = &self.interruption.flag;
            let binaries =
                Binaries::find_or_fetch(&arm.wanted, flag, &mut |text| observer.remark(text))
                    .map_err(|error| match error {
                        BinariesError::Interrupted => Failure::Interrupted,
                        error => Failure::Environment(format!("arm '{}': {error}", arm.name)),
                    })?;
            arm.binaries = Some(binaries);
        }
        self.check_space(observer)?;
        let distinct: BTreeMap<PathBuf, Binaries> = self
            .arms
            .iter()
            .filter_map(|arm| arm.binaries.clone())
            .map(|binaries| (binaries.directory().to_owned(), binaries))
            .collect();
        for (directory, binaries) in distinct {
            let snapshot = self.load(binaries, observer)?;
            self.snapshots.insert(directory, snapshot);
        }
        for arm in &mut self.arms {
            let Some(binaries) = &arm.binaries else { continue };
            for instance in 0..INSTANCES {
                let mut options = ServerOptions::new(
                    binaries.clone(),
                    &format!("{}-{}", arm.name, instance + 1),
                    Arc::clone(&self.interruption.flag),
                );
                options.settings = arm.settings.clone();
                options.environment = arm.environment.clone();
                let server = ManagedServer::create(options, &self.runtime)
                    .map_err(|error| failure(&arm.name, &error))?;
                arm.instances.push(server);
            }
        }
        Ok(())
    }

    pub(super) fn facts(&self, arm: usize) -> Facts {
        let binaries = self.arms.get(arm).and_then(|arm| arm.binaries.as_ref());
        Facts {
            binaries: binaries
                .map_or_else(String::new, |binaries| binaries.directory().display().to_string()),
            build_options: binaries
                .and_then(|binaries| binaries.build_options().map(str::to_owned)),
            data_hash: binaries
                .and_then(|binaries| self.snapshots.get(binaries.directory()))
                .map(|snapshot| snapshot.sha256().to_owned()),
        }
    }

    /// Restores the data of an instance (unless they are to be kept) and starts it.
    pub(super) fn start(
        &mut self,
        arm: usize,
        instance: u32,
        drop_cache: bool,
        keeps_data: bool,
        observer: &mut dyn Observer,
    ) -> Result<Started, Failure> {
        let runtime = Arc::clone(&self.runtime);
        let arm = self
            .arms
            .get_mut(arm)
            .ok_or_else(|| Failure::Environment(format!("there is no arm {arm}")))?;
        let snapshot = arm
            .binaries
            .as_ref()
            .and_then(|binaries| self.snapshots.get(binaries.directory()))
            .ok_or_else(|| Failure::Environment("the data were not loaded".to_owned()))?;
        let index = instance as usize % INSTANCES;
        let server = arm
            .instances
            .get_mut(index)
            .ok_or_else(|| Failure::Environment("the servers were not made".to_owned()))?;
        if !(keeps_data && arm.has_data[index]) {
            observer.stage(&format!("restoring the data of '{}'", arm.name), None);
            snapshot
                .restore(server, drop_cache, &runtime)
                .map_err(|error| failure(&arm.name, &error))?;
            arm.has_data[index] = true;
        }
        observer.stage(&format!("starting '{}'", arm.name), None);
        server
            .start_telling(&mut |text| observer.remark(text))
            .map_err(|error| failure(&arm.name, &error))?;
        Ok(Started {
            address: server.address(),
            log: server.log_path(),
            data_directory: server.data_directory(),
            process: server.process_id(),
        })
    }

    pub(super) fn check_alive(&mut self, arm: usize, instance: u32) -> Result<(), ServerError> {
        match self.server(arm, instance) {
            Some(server) => server.check_alive(),
            None => Ok(()),
        }
    }

    pub(super) fn stop(&mut self, arm: usize, instance: u32) -> Result<(), Failure> {
        let name = self.arms.get(arm).map(|arm| arm.name.clone()).unwrap_or_default();
        match self.server(arm, instance) {
            Some(server) => server.stop().map(|_| ()).map_err(|error| failure(&name, &error)),
            None => Ok(()),
        }
    }

    /// Stops a server that does not answer, in bounded time, and says how that went.
    pub(super) fn stop_unanswering(
        &mut self,
        arm: usize,
        instance: u32,
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        let name = self.arms.get(arm).map(|arm| arm.name.clone()).unwrap_or_default();
        let Some(server) = self.server(arm, instance) else { return Ok(()) };
        let was_suspended = server.is_suspended();
        let how = match server.stop_unanswering().map_err(|error| failure(&name, &error))? {
            Shutdown::WasDown => "had ended by itself",
            Shutdown::Fast if was_suspended => "was let go on (SIGCONT) and shut down",
            Shutdown::Fast => "was shut down",
            Shutdown::Immediate => "would not shut down, and was ended at once (SIGQUIT)",
            Shutdown::Killed => "would not end by itself, and was killed (SIGKILL)",
        };
        observer.remark(&format!(
            "the server of '{name}', which did not answer or lost its clients, {how}"
        ));
        Ok(())
    }

    /// Whether processes of the server are stopped, so that it cannot answer.
    pub(super) fn is_suspended(&mut self, arm: usize, instance: u32) -> bool {
        self.server(arm, instance).is_some_and(|server| server.is_suspended())
    }

    /// Whether there is nothing to remove.
    pub(super) fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.arms.iter().all(|arm| arm.instances.is_empty())
    }

    /// Stops and removes everything; says what stayed.
    pub(super) fn remove(&mut self) -> Vec<String> {
        let mut stayed = Vec::new();
        for arm in &mut self.arms {
            for server in arm.instances.drain(..) {
                let directory = server.directory().display().to_string();
                if let Err(error) = server.remove() {
                    stayed.push(format!("{directory} could not be removed: {error}"));
                }
            }
        }
        for (_, snapshot) in std::mem::take(&mut self.snapshots) {
            let directory = snapshot.directory().display().to_string();
            if let Err(error) = snapshot.remove() {
                stayed.push(format!("{directory} could not be removed: {error}"));
            }
        }
        stayed
    }

    fn server(&mut self, arm: usize, instance: u32) -> Option<&mut ManagedServer> {
        self.arms.get_mut(arm)?.instances.get_mut(instance as usize % INSTANCES)
    }

    /// Refuses a session that would fill the disk.
    fn check_space(&self, observer: &mut dyn Observer) -> Result<(), Failure> {
        let distinct: std::collections::BTreeSet<_> = self
            .arms
            .iter()
            .filter_map(|arm| arm.binaries.as_ref())
            .map(Binaries::directory)
            .collect();
        let copies = self.arms.len() * INSTANCES + distinct.len() * 2;
        let tables = self.tables.as_ref().map_or(0, estimated_bytes);
        let one = tables.saturating_add(BYTES_OF_EMPTY);
        let needed = one.saturating_mul(copies as u64);
        let parent = default_parent();
        let Ok(free) = free_bytes(&parent) else { return Ok(()) };
        // Bytes beyond 2^53 lose nothing that a person would read.
        #[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
        let shown = |bytes: u64| number::bytes(bytes as f64);
        if needed.saturating_add(needed / 10) > free {
            return Err(Failure::Environment(format!(
                "the session needs about {} in {} ({copies} copies of the data), and {} are free: \
                 lower workload.scale or make room",
                shown(needed),
                parent.display(),
                shown(free)
            )));
        }
        observer.remark(&format!(
            "data: about {} for each copy, {} in all, in {} ({} free)",
            shown(one),
            shown(needed),
            parent.display(),
            shown(free)
        ));
        Ok(())
    }

    /// An error is the user's wish where the user has spoken.
    fn refusal(&self, reason: String) -> Failure {
        if self.interruption.is_set() { Failure::Interrupted } else { Failure::Environment(reason) }
    }

    /// Refuses settings that the server just made does not know, and values that it does not take, before
    /// anything is loaded.
    fn check_settings(&self, server: &ManagedServer, directory: &Path) -> Result<(), Failure> {
        let fail = |error: &dyn std::fmt::Display| self.refusal(format!("loading: {error}"));
        let flag = &self.interruption.flag;
        let mut client = Client::connect_heeding(&server.address(), &self.runtime, flag)
            .map_err(|error| fail(&error))?;
        let rows = client
            .query("select name, vartype from pg_catalog.pg_settings")
            .map_err(|error| fail(&error))?;
        let known: Vec<&str> = rows.iter().filter_map(|row| row.value(0)).collect();
        // Texts and lists are judged by whoever reads them, in part only when the server starts.
        let has_judge = |name: &str| {
            rows.iter().any(|row| {
                row.value(0).is_some_and(|known| known.eq_ignore_ascii_case(name))
                    && row.value(1) != Some("string")
            })
        };
        for arm in &self.arms {
            let is_of_server =
                arm.binaries.as_ref().is_some_and(|own| own.directory() == directory);
            if !is_of_server {
                continue;
            }
            if let Some(text) = arm.settings.keys().find_map(|name| unknown_setting(name, &known)) {
                return Err(Failure::Environment(format!("arm '{}': {text}", arm.name)));
            }
            for (name, value) in arm.settings.iter().filter(|(name, _)| has_judge(name)) {
                if let Err(error) = client.execute(&trial(name, value)) {
                    return Err(self.refusal(format!(
                        "arm '{}': setting {name} = '{value}': {error}",
                        arm.name
                    )));
                }
                client.execute(&trial_undone(name)).map_err(|error| fail(&error))?;
            }
        }
        Ok(())
    }

    fn load(&self, binaries: Binaries, observer: &mut dyn Observer) -> Result<Snapshot, Failure> {
        let version = binaries.version().to_owned();
        let directory = binaries.directory().to_owned();
        let fail = |error: ServerError| failure("loading", &error);
        observer.stage(&format!("making a data directory with {version}"), None);
        let options = ServerOptions::new(binaries, "loader", Arc::clone(&self.interruption.flag));
        let mut server = ManagedServer::create(options, &self.runtime).map_err(fail)?;
        server.initialise().map_err(fail)?;
        server.start_telling(&mut |text| observer.remark(text)).map_err(fail)?;
        self.check_settings(&server, &directory)?;
        if let Some(options) = &self.tables {
            let text = format!("loading pgbench's tables at scale {}", options.scale);
            observer.stage(&text, None);
            let progress = &mut |phase| match phase {
                Phase::Rows { done, total } => {
                    observer.stage(&format!("{text}: {}%", done * 100 / total.max(1)), None);
                }
                Phase::Waiting { .. } => observer.remark(&format!("{text}: {phase}")),
                _ => observer.stage(&format!("{text}: {phase}"), None),
            };
            initialise(
                &server.address(),
                options,
                &self.runtime,
                &self.interruption.flag,
                progress,
            )
            .map_err(|error| match error {
                InitialiseError::Interrupted { .. } => Failure::Interrupted,
                // What is left of the tables goes with their server.
                InitialiseError::Silent { seconds, answer, .. } => Failure::Environment(format!(
                    "loading: the server has not answered for {seconds} s: {answer}; it was ended"
                )),
                error => Failure::Environment(format!("loading: {error}")),
            })?;
        }
        server.stop().map_err(fail)?;
        if self.interruption.is_set() {
            return Err(Failure::Interrupted);
        }
        observer.stage("keeping a snapshot of the data", None);
        let snapshot = Snapshot::take(&server, &self.runtime).map_err(fail)?;
        server.remove().map_err(fail)?;
        Ok(snapshot)
    }
}

/// Has the server judge a value; the server that runs keeps its own.
fn trial(name: &str, value: &str) -> String {
    format!("alter system set {} = {}", identifier(name), quote_literal(value))
}

/// Takes the trial back, so that the data directory is as it was.
fn trial_undone(name: &str) -> String {
    format!("alter system reset {}", identifier(name))
}

/// In quotes; servers keep the names of their settings in small letters.
fn identifier(name: &str) -> String {
    quote_identifier(&name.to_ascii_lowercase())
}

/// Why a server with these settings does not know this one. A name with a dot is an extension's, which may
/// not be loaded yet.
fn unknown_setting(name: &str, known: &[&str]) -> Option<String> {
    let is_known = name.contains('.') || known.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_known {
        return None;
    }
    let remedy = nearest(&name.to_ascii_lowercase(), known).map_or_else(
        || "; see pg_settings for those it knows".to_owned(),
        |near| format!("; did you mean '{near}'?"),
    );
    Some(format!("the server has no setting '{name}'{remedy}"))
}

fn failure(name: &str, error: &ServerError) -> Failure {
    match error {
        ServerError::Interrupted => Failure::Interrupted,
        error => Failure::Environment(format!("arm '{name}': {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_setting_is_named_with_the_nearest_one_before_anything_is_loaded() {
        let known = ["shared_buffers", "work_mem"];
        assert_eq!(
            unknown_setting("shared_bufers", &known).unwrap(),
            "the server has no setting 'shared_bufers'; did you mean 'shared_buffers'?"
        );
        assert!(unknown_setting("nothing_like_it", &known).unwrap().contains("pg_settings"));
        for name in ["work_mem", "Work_Mem", "auto_explain.log_min_duration"] {
            assert_eq!(unknown_setting(name, &known), None);
        }
    }
}
