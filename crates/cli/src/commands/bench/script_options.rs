//! The options that choose scripts, in the order in which they were given: pgbench numbers scripts by it,
//! in its report and in its log.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// One script that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptOption {
    /// A built-in one, by name, with a weight after @.
    Builtin(String),
    /// A file's path, with a weight after @.
    File(String),
}

/// All scripts that were asked for, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScriptOptions {
    pub(super) chosen: Vec<ScriptOption>,
}

const BUILTIN: &str = "builtin";
const FILE: &str = "file";
const SKIP_SOME_UPDATES: &str = "skip_some_updates";
const SELECT_ONLY: &str = "select_only";

impl ScriptOptions {
    /// Whether a built-in script, or the list of them, was asked for by this name.
    pub(super) fn names_builtin(&self, name: &str) -> bool {
        self.chosen.iter().any(|one| matches!(one, ScriptOption::Builtin(given) if given == name))
    }

    pub(super) fn has_builtins(&self) -> bool {
        self.chosen.iter().any(|one| matches!(one, ScriptOption::Builtin(_)))
    }
}

/// A flag that stands for a built-in script and may be repeated, as in pgbench.
fn flag(id: &'static str, letter: char, long: &'static str, script: &'static str) -> Arg {
    Arg::new(id)
        .short(letter)
        .long(long)
        .action(ArgAction::Append)
        .num_args(0)
        .default_missing_value(script)
        .value_parser(ValueParser::string())
        .help(format!("The built-in script {script}"))
}

impl clap::Args for ScriptOptions {
    fn augment_args(command: Command) -> Command {
        let chosen = |id, letter, metavar, help| {
            Arg::new(id)
                .short(letter)
                .long(id)
                .value_name(metavar)
                .action(ArgAction::Append)
                .value_parser(ValueParser::string())
                .help(help)
        };
        command
            .arg(chosen(
                BUILTIN,
                'b',
                "NAME[@W]",
                "Built-in script: tpcb-like, simple-update, select-only or \"list\", with a weight after @ \
                 (repeatable)",
            ))
            .arg(chosen(FILE, 'f', "FILE[@W]", "Script file, with a weight after @ (repeatable)"))
            .arg(flag(SKIP_SOME_UPDATES, 'N', "skip-some-updates", "simple-update"))
            .arg(flag(SELECT_ONLY, 'S', "select-only", "select-only"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for ScriptOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut chosen = Vec::new();
        for id in [BUILTIN, FILE, SKIP_SOME_UPDATES, SELECT_ONLY] {
            let places = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<String>(id).into_iter().flatten();
            chosen.extend(places.zip(values).map(|(place, value)| {
                let value = value.clone();
                match id {
                    FILE => (place, ScriptOption::File(value)),
                    _ => (place, ScriptOption::Builtin(value)),
                }
            }));
        }
        chosen.sort_by_key(|(place, _)| *place);
        Ok(Self { chosen: chosen.into_iter().map(|(_, one)| one).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn chosen(arguments: &[&str]) -> Vec<ScriptOption> {
        let command = ScriptOptions::augment_args(Command::new("bench").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).unwrap();
        ScriptOptions::from_arg_matches(&matches).unwrap().chosen
    }

    #[test]
    fn scripts_keep_the_order_of_the_command_line_whatever_their_option() {
        let builtin = |name: &str| ScriptOption::Builtin(name.to_owned());
        let file = |name: &str| ScriptOption::File(name.to_owned());
        assert_eq!(
            chosen(&["-f", "a.sql@2", "-S", "-b", "tpcb-like", "--file=b.sql", "-N", "-S"]),
            [
                file("a.sql@2"),
                builtin("select-only"),
                builtin("tpcb-like"),
                file("b.sql"),
                builtin("simple-update"),
                builtin("select-only"),
            ]
        );
        assert_eq!(chosen(&[]), []);
    }
}
