//! Expressions of scripts: ours against those of the pgbench that is installed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::bench::{Fixture, fixture};

/// Each expression is for one client, so that an error ends no other.
const EXPRESSIONS_PER_RUN: usize = 60;

/// What pgbench gave, and where we differ on purpose (its file says how and why).
const GOLDEN: &str = include_str!("../../../lab/src/workload/testdata/pgbench_expressions.txt");

/// What `debug()` says of each expression; nothing where it ended in an error.
fn said(
    fixture: &Fixture,
    program: &Path,
    leading: &[&str],
    expressions: &[String],
) -> Vec<String> {
    let mut said = Vec::new();
    for batch in expressions.chunks(EXPRESSIONS_PER_RUN) {
        let mut script = String::new();
        for (client, expression) in batch.iter().enumerate() {
            let set = format!("\\set x debug({expression})");
            writeln!(script, "\\if :client_id = {client}\n{set}\n\\endif").unwrap();
        }
        let script = fixture.script("expressions.sql", &script);
        let clients = batch.len().to_string();
        let output = fixture
            .command(program)
            .args(leading)
            .args(["-n", "-t", "1", "-D", "default_seed=7", "-c", &clients, "-f", &script])
            .output()
            .unwrap();
        let stderr = super::text(&output.stderr);
        let values: BTreeMap<usize, &str> = stderr
            .lines()
            .filter_map(|line| {
                let (_, rest) = line.split_once("debug(script=0,command=")?;
                let (command, value) = rest.split_once("): ")?;
                Some((command.parse().ok()?, value))
            })
            .collect();
        assert!(!values.is_empty(), "{program:?}: {stderr}");
        // Each client has three commands, the second of which is its expression; they count from 1.
        said.extend((0..batch.len()).map(|client| match values.get(&(3 * client + 2)) {
            // The sign of what is no number is the processor's choice.
            Some(value) => value.replace("-nan", "nan"),
            None => "error".to_owned(),
        }));
    }
    said
}

fn differences(fixture: &Fixture, expressions: &[String]) -> Vec<String> {
    let ours = said(fixture, Path::new(env!("CARGO_BIN_EXE_evenkeel")), &["bench"], expressions);
    let theirs = said(fixture, &fixture.pgbench, &[], expressions);
    let all = expressions.iter().zip(ours.iter().zip(&theirs));
    all.filter(|(_, (ours, theirs))| ours != theirs)
        .map(|(expression, (ours, theirs))| {
            format!("{expression}: pgbench says {theirs}, we say {ours}")
        })
        .collect()
}

#[test]
fn the_installed_pgbench_gives_the_values_that_ours_are_held_to() {
    let Some(fixture) = fixture("exprgolden").filter(|found| found.pgbench.is_file()) else {
        return;
    };
    let expressions: Vec<String> = GOLDEN
        .lines()
        .filter(|line| !line.starts_with('#') && !line.contains(" !! "))
        .filter_map(|line| line.split_once(" => "))
        .filter(|(_, value)| *value != "SYNTAX")
        .map(|(expression, _)| expression.to_owned())
        .collect();
    assert!(expressions.len() > 200);
    let wrong = differences(&fixture, &expressions);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An expression whose value, or whose error, follows from its text. What C leaves undefined does not
/// occur: shifts by more than an integer has bits, roots of negative numbers, and `abs` of a boolean or of the
/// least integer, for which pgbench 15 reads the wrong member of a union or overflows.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => (-20..20_i64).prop_map(|number| format!("({number})")),
        1 => Just("9223372036854775807".to_owned()),
        1 => (0..1000_i64).prop_map(|number| format!("{}", number as f64 / 8.0 + 0.0625)),
        1 => prop::sample::select(vec!["true", "false", "null", "pi()", ":client_id", "1.5e3"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let binary =
            prop::sample::select(vec!["+", "-", "*", "/", "%", "&", "|", "#", "and", "or"]);
        // They do not chain.
        let comparison = prop::sample::select(vec!["=", "<>", "!=", "<", "<=", ">", ">="]);
        let unary = prop::sample::select(vec!["-", "+", "not ", "~"]);
        let shift = prop::sample::select(vec!["<<", ">>"]);
        let function = prop::sample::select(vec!["int", "double", "hash", "hash_fnv1a"]);
        let two = prop::sample::select(vec!["mod", "power", "hash_murmur2"]);
        let many = prop::sample::select(vec!["greatest", "least"]);
        prop_oneof![
            6 => (inner.clone(), binary.clone(), inner.clone())
                .prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            3 => (inner.clone(), comparison, inner.clone())
                .prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            // Without parentheses precedence decides.
            3 => (inner.clone(), binary, inner.clone())
                .prop_map(|(a, operator, b)| format!("{a} {operator} {b}")),
            1 => (unary, inner.clone()).prop_map(|(operator, a)| format!("({operator}{a})")),
            1 => (inner.clone(), shift, 0..63_u32)
                .prop_map(|(a, operator, bits)| format!("(({a}) {operator} {bits})")),
            1 => (inner.clone(), prop::bool::ANY)
                .prop_map(|(a, is)| format!("({a} is {}null)", if is { "" } else { "not " })),
            2 => (function, inner.clone()).prop_map(|(name, a)| format!("{name}({a})")),
            1 => (-20..20_i64, 0..40_u32).prop_map(|(a, b)| format!("(abs({a}) - sqrt({b}))")),
            2 => (two, inner.clone(), inner.clone())
                .prop_map(|(name, a, b)| format!("{name}({a}, {b})")),
            1 => (many, prop::collection::vec(inner.clone(), 1..4))
                .prop_map(|(name, all)| format!("{name}({})", all.join(", "))),
            1 => (inner.clone(), 1..5000_i64, 0..99_i64)
                .prop_map(|(a, size, seed)| format!("permute({a}, {size}, {seed})")),
            1 => (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("case when {a} then {b} else {c} end")),
        ]
    })
}

#[test]
fn random_expressions_have_the_values_that_the_installed_pgbench_gives_them() {
    let Some(fixture) = fixture("exprrandom").filter(|found| found.pgbench.is_file()) else {
        return;
    };
    let mut runner = TestRunner::deterministic();
    let strategy = expression();
    let expressions: Vec<String> =
        (0..600).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    let wrong = differences(&fixture, &expressions);
    assert!(wrong.is_empty(), "{} differ: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}
