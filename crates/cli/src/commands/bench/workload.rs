//! From the options to a compiled workload.

use std::sync::Arc;

use anyhow::bail;
use evenkeel_lab::distribution::DistributionSpec;
use evenkeel_lab::experiment::document::ScriptUse;
use evenkeel_lab::initialise::read_scale;
use evenkeel_lab::target::postgres::client::Client;
use evenkeel_lab::text::terminal_lines;
use evenkeel_lab::workload::builtin::name_and_weight;
use evenkeel_lab::workload::script::{Value, Workload};
use evenkeel_lab::workload::{Builtin, Compiler, read_script, scale};

use super::Arguments;
use super::script_options::ScriptOption;
use crate::exit::Outcome;

/// Prints a built-in script.
#[allow(clippy::print_stdout, reason = "the script is the command's result")]
pub(super) fn show(name: &str, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let builtin = Builtin::find(name)?;
    print!("-- {}: {}\n{}", builtin.name(), builtin.description(), builtin.text(keys(arguments)?));
    Ok(Outcome::Success)
}

/// Prints the names of the built-in scripts, for `-b list`.
#[allow(clippy::print_stdout, reason = "the list is the command's result")]
pub(super) fn list() -> Outcome {
    println!("Available builtin scripts:");
    for builtin in Builtin::ALL {
        println!("  {:>13}: {}", builtin.name(), builtin.description());
    }
    Outcome::Success
}

/// The scale of pgbench's tables, as the database has it; `None` where it has none and no built-in
/// script needs them.
pub(super) fn scale(client: &mut Client, arguments: &Arguments) -> anyhow::Result<Option<u64>> {
    let found = read_scale(client)?;
    let needs_tables = arguments.scripts.has_builtins() || arguments.scripts.chosen.is_empty();
    Ok(scale::resolve(found, arguments.scale, needs_tables)?)
}

/// Compiles the scripts that were asked for, in that order; tpcb-like where nothing was.
pub(super) fn load(
    arguments: &Arguments,
    scale: Option<u64>,
) -> anyhow::Result<(Arc<Workload>, Vec<ScriptUse>)> {
    let mut compiler = Compiler::new();
    if let Some(scale) = scale {
        compiler.define("scale", Value::Int(i64::try_from(scale)?))?;
    }
    for define in &arguments.defines {
        compiler.define_option(define)?;
    }
    let keys = keys(arguments)?;
    let default = [ScriptOption::Builtin(Builtin::TpcbLike.name().to_owned())];
    let chosen = match arguments.scripts.chosen.as_slice() {
        [] => default.as_slice(),
        chosen => chosen,
    };
    let mut uses = Vec::new();
    for script in chosen {
        let (name, weight, text) = match script {
            ScriptOption::Builtin(text) => {
                let (name, weight) = name_and_weight(text, "-b")?;
                let builtin = Builtin::find(name)?;
                (builtin.description(), weight, builtin.text(keys))
            }
            ScriptOption::File(text) => {
                let (path, weight) = name_and_weight(text, "-f")?;
                (path, weight, read_script(path)?)
            }
        };
        compiler.add(name, weight, &text)?;
        uses.push(ScriptUse::of(name, weight, &text));
    }
    let workload = compiler.finish()?;
    remark(&workload);
    Ok((Arc::new(workload), uses))
}

/// Says what may not be meant.
#[allow(clippy::print_stderr, reason = "remarks are for the person at the terminal")]
fn remark(workload: &Workload) {
    for remark in &workload.remarks {
        eprintln!("note: {}", terminal_lines(&remark.to_string()));
    }
}

fn keys(arguments: &Arguments) -> anyhow::Result<DistributionSpec> {
    let Some(text) = &arguments.distribution else { return Ok(DistributionSpec::Uniform) };
    if !arguments.scripts.chosen.is_empty() && !arguments.scripts.has_builtins() {
        bail!("--distribution is for built-in scripts; a script file says how its keys are drawn");
    }
    Ok(text.parse()?)
}
