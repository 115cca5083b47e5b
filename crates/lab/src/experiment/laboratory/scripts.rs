//! The workload of a session, from built-in scripts and files.

use super::super::document::ScriptUse;
use super::super::plan::{Plan, ScriptSource};
use super::super::session::Failure;
use super::script_use;
use crate::distribution::DistributionSpec;
use crate::workload::script::{Value, Workload};
use crate::workload::{Builtin, Compiler, ScriptError, read_script};

/// A script's text, not yet understood.
pub(super) struct Source {
    name: String,
    weight: u32,
    text: String,
}

/// Reads all scripts and checks them, before any server is started.
pub(super) fn read(plan: &Plan) -> Result<Vec<Source>, Failure> {
    let distribution: DistributionSpec = match &plan.distribution {
        None => DistributionSpec::Uniform,
        Some(text) => text
            .parse()
            .map_err(|error| Failure::Environment(format!("workload.distribution: {error}")))?,
    };
    let mut sources = Vec::new();
    for script in &plan.scripts {
        let (name, text) = match &script.source {
            ScriptSource::Builtin(name) => {
                let builtin = Builtin::find(name).map_err(failure)?;
                (builtin.name().to_owned(), builtin.text(distribution))
            }
            ScriptSource::File(path) => {
                let text = read_script(&path.display().to_string()).map_err(failure)?;
                (path.display().to_string(), text)
            }
        };
        sources.push(Source { name, weight: script.weight, text });
    }
    // The scale is not known yet; an error in a script should not have to wait for it.
    build(plan, &sources, Some(plan.scale.unwrap_or(1)))?;
    Ok(sources)
}

/// The workload with the target's scale; without one, a script that reads `:scale` is refused.
pub(super) fn compile(
    plan: &Plan,
    sources: &[Source],
    scale: Option<u64>,
) -> Result<(Workload, Vec<ScriptUse>), Failure> {
    let workload = build(plan, sources, scale)?;
    let uses = sources
        .iter()
        .map(|source| script_use(&source.name, source.weight, &source.text))
        .collect();
    Ok((workload, uses))
}

fn build(plan: &Plan, sources: &[Source], scale: Option<u64>) -> Result<Workload, Failure> {
    let mut compiler = Compiler::new();
    if let Some(scale) = scale {
        let scale = i64::try_from(scale).unwrap_or(i64::MAX);
        compiler.define("scale", Value::Int(scale)).map_err(failure)?;
    }
    for (name, value) in &plan.defines {
        if name == "scale" {
            return Err(Failure::Environment(
                "workload.define.scale: the scale is read from the target".to_owned(),
            ));
        }
        compiler.define(name, Value::Text(value.as_str().into())).map_err(failure)?;
    }
    for source in sources {
        compiler.add(&source.name, source.weight, &source.text).map_err(failure)?;
    }
    compiler.finish().map_err(failure)
}

fn failure(error: ScriptError) -> Failure {
    Failure::Environment(error.to_string())
}
