//! The language against pgbench's own answers, and against what broke other parsers.

use std::fmt::Write;

use super::builtin::{Builtin, name_and_weight};
use super::compile::Compiler;
use super::evaluate::{Draws, evaluate};
use super::script::{Capture, Command, Piece, Value, Workload};
use crate::distribution::{CallSite, Purpose, RandomStream};

fn compile(text: &str) -> Result<Workload, String> {
    let mut compiler = Compiler::new();
    compiler.define("scale", Value::Int(1)).unwrap();
    compiler.add("test.sql", 1, text).map_err(|error| error.to_string())?;
    compiler.finish().map_err(|error| error.to_string())
}

/// Runs the `\set` commands of a script; what it printed and the value that was set last.
fn run_sets(text: &str) -> Result<(Vec<String>, Value), String> {
    let workload = compile(text)?;
    let mut variables = vec![Value::Null; workload.symbols.len()];
    for (slot, value) in &workload.initial {
        variables[slot.0 as usize] = value.clone();
    }
    let mut draws = Draws {
        stream: RandomStream::new(1, 0, Purpose::Script),
        call_sites: vec![CallSite::default(); workload.call_sites.len()],
    };
    let mut printed = Vec::new();
    let mut last = Value::Null;
    for command in &workload.scripts[0].commands {
        let Command::Set { variable, expression } = command else { continue };
        let mut print = |line: &str| printed.push(line.to_owned());
        last = evaluate(expression, &variables, &mut draws, &mut print)
            .map_err(|error| error.to_string())?;
        variables[variable.0 as usize] = last.clone();
    }
    Ok((printed, last))
}

/// Differences that are meant: our message says more, or shows a number otherwise.
fn is_same_error(ours: &str, theirs: &str) -> bool {
    let stem = |text: &str| text.split([' ', '(']).take(4).collect::<Vec<_>>().join(" ");
    stem(ours) == stem(theirs)
}

#[test]
fn expressions_have_the_values_that_pgbench_gives_them() {
    let golden = include_str!("testdata/pgbench_expressions.txt");
    let mut wrong = String::new();
    let mut count = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let (expression, expected) = line.split_once(" => ").unwrap();
        count += 1;
        match (run_sets(&format!("\\set x debug({expression})")), expected.strip_prefix("ERROR ")) {
            (Ok((printed, _)), None) if printed.last().map(String::as_str) == Some(expected) => {}
            (Err(ours), Some(theirs)) if is_same_error(&ours, theirs) => {}
            (other, _) => writeln!(wrong, "{expression}: {expected}, we say {other:?}").unwrap(),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 100);
}

#[test]
fn the_same_script_in_any_line_ends_gives_the_same_plan() {
    let unix = "\\set a 1 + \\\n  2\nSELECT :a,\n 2;\n-- end\n\\sleep 10 ms\n";
    let plan = |text: &str| {
        let workload = compile(text).unwrap();
        let statements: Vec<String> = workload
            .statements
            .iter()
            .map(|statement| statement.text.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        (
            format!("{:?}", workload.scripts[0].commands),
            statements,
            workload.scripts[0].lines.clone(),
        )
    };
    let expected = plan(unix);
    assert_eq!(plan(&unix.replace('\n', "\r\n")), expected, "CRLF");
    assert_eq!(plan(unix.trim_end()), expected, "no last newline");
    assert_eq!(plan(&format!("\u{feff}{unix}")), expected, "byte order mark");
}

#[test]
fn variables_stand_outside_of_literals_comments_and_casts_only() {
    let workload = compile(
        "\\set a 1\n\
         SELECT ':a', '12:34'::time, \":a\", $$ :a $$, $t$ :a; $t$, /* :a /* :a */ ; */ :a::int, \
         E'\\':a;', x[1::int] -- :a ;\n, :a;",
    )
    .unwrap();
    let [statement] = workload.statements.as_slice() else { panic!("{:?}", workload.statements) };
    assert_eq!(statement.parameters.len(), 2);
    assert!(statement.text.contains("$1::int") && statement.text.ends_with(", $2"));
    assert!(statement.text.contains("'12:34'::time") && statement.text.contains("E'\\':a;'"));
}

#[test]
fn several_statements_a_line_are_several_and_joined_ones_are_one() {
    let workload = compile("SELECT 1; SELECT 2;\nSELECT 3\\; SELECT 4;\nSELECT (5;6)").unwrap();
    let texts: Vec<&str> = workload.statements.iter().map(|s| s.text.as_str()).collect();
    assert_eq!(texts, ["SELECT 1", "SELECT 2", "SELECT 3; SELECT 4", "SELECT (5;6)"]);
    assert_eq!(workload.scripts[0].lines, [1, 1, 2, 3]);
}

#[test]
fn captures_belong_to_the_statement_before_them() {
    let workload =
        compile("SELECT 1 AS one \\gset p_\nSELECT 2 AS two; \\aset\nSELECT :p_one").unwrap();
    let captures: Vec<&Capture> = workload.scripts[0]
        .commands
        .iter()
        .map(|command| match command {
            Command::Sql { capture, .. } => capture,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        captures,
        [
            &Capture::GSet { prefix: "p_".to_owned() },
            &Capture::ASet { prefix: String::new() },
            &Capture::None
        ]
    );
}

/// Follows jumps with fixed conditions; the statements that are reached.
fn reached(text: &str) -> Vec<String> {
    let workload = compile(text).unwrap();
    let script = &workload.scripts[0];
    let mut draws =
        Draws { stream: RandomStream::new(1, 0, Purpose::Script), call_sites: Vec::new() };
    let (mut at, mut seen) = (0, Vec::new());
    while let Some(command) = script.commands.get(at) {
        at += 1;
        match command {
            Command::JumpUnless { condition, target } => {
                let value = evaluate(condition, &[], &mut draws, &mut |_| {}).unwrap();
                if !super::evaluate::truth(&value).unwrap() {
                    at = *target;
                }
            }
            Command::Jump { target } => at = *target,
            Command::Sql { statement, .. } => {
                seen.push(workload.statements[statement.0 as usize].text.clone());
            }
            _ => {}
        }
    }
    seen
}

#[test]
fn conditions_choose_one_branch_at_any_depth() {
    let script = |a: &str, b: &str, c: &str| {
        format!(
            "\\if {a}\nSELECT 1;\n\\if {c}\nSELECT 2;\n\\endif\n\\elif {b}\nSELECT 3;\n\\else\n\
             \\if {c}\nSELECT 4;\n\\else\nSELECT 5;\n\\endif\n\\endif\nSELECT 6;"
        )
    };
    let numbers = |a: &str, b: &str, c: &str| -> String {
        reached(&script(a, b, c)).iter().map(|s| s.trim_start_matches("SELECT ")).collect()
    };
    assert_eq!(numbers("true", "1", "true"), "126");
    assert_eq!(numbers("true", "1", "0"), "16");
    assert_eq!(numbers("false", "1", "true"), "36");
    assert_eq!(numbers("null", "0", "true"), "46");
    assert_eq!(numbers("0", "null", "false"), "56");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, place, message) in [
        ("", "test.sql: ", "holds no command"),
        ("-- nothing\n  \n", "test.sql: ", "holds no command"),
        ("\\set x 1 +\n", "test.sql:1:11: ", "ends where a value is expected"),
        ("SELECT 1;\n\\set x random(1, )", "test.sql:2:18: ", "expected a value, not ')'"),
        ("\\set x foo(1)", "test.sql:1:8: ", "there is no function 'foo'"),
        ("\\set x sqrt(1, 2)", "test.sql:1:8: ", "takes 1 arguments, not 2"),
        ("\\set x 1 = 2 = 3", "test.sql:1:14: ", "expected an operator"),
        ("\\set x y", "test.sql:1:8: ", "write :y for a variable"),
        ("\\set x 99999999999999999999", "test.sql:1:8: ", "out of range of 64 bits"),
        ("\\set x 9223372036854775808", "test.sql:1:8: ", "out of range of 64 bits"),
        ("\\set x 1e999", "test.sql:1:8: ", "out of range"),
        ("\\set x :", "test.sql:1:8: ", "must be followed by a variable's name"),
        ("\\set x 1 @ 2", "test.sql:1:10: ", "'@' is not part of an expression"),
        ("\\set", "test.sql:1:1: ", "needs a variable and an expression"),
        ("\\set x", "test.sql:1:6: ", "needs an expression"),
        ("\\set a-b 1", "test.sql:1:6: ", "is not a variable's name"),
        ("\\sleep", "test.sql:1:1: ", "needs a duration"),
        ("\\sleep 1 min", "test.sql:1:10: ", "us, ms or s"),
        ("\\sleep 1 s s", "test.sql:1:12: ", "a duration and a unit"),
        ("\\shell date", "test.sql:1:1: ", "is refused"),
        ("\\setshell x date", "test.sql:1:1: ", "is refused"),
        ("\\foo", "test.sql:1:1: ", "there is no command \\foo"),
        ("\\gset", "test.sql:1:1: ", "must follow a SQL command"),
        ("SELECT 1 \\gset\n\\gset", "test.sql:2:1: ", "must follow a SQL command"),
        ("\\if 1\nSELECT 1;", "test.sql:1:1: ", "has no \\endif"),
        ("\\endif", "test.sql:1:1: ", "without \\if"),
        ("\\if 1\n\\else\n\\elif 1\n\\endif", "test.sql:3:1: ", "behind \\else"),
        ("\\else", "test.sql:1:1: ", "without \\if"),
        ("\\if\n\\endif", "test.sql:1:1: ", "a condition is missing"),
        ("\\startpipeline\nSELECT 1;", "test.sql:1:1: ", "never ended"),
        ("\\endpipeline", "test.sql:1:1: ", "without \\startpipeline"),
        ("\\startpipeline\n\\startpipeline", "test.sql:2:1: ", "open already"),
        ("\\syncpipeline", "test.sql:1:1: ", "outside of a pipeline"),
        (
            "\\startpipeline\nSELECT 1 \\gset\n\\endpipeline",
            "test.sql:2:10: ",
            "not allowed in a pipeline",
        ),
        ("\\endpipeline now", "test.sql:1:14: ", "takes no argument"),
        ("SELECT 'x", "test.sql:1:8: ", "this literal is never closed"),
        ("SELECT \"x", "test.sql:1:8: ", "identifier is never closed"),
        ("SELECT /* x", "test.sql:1:8: ", "comment is never closed"),
        ("SELECT $a$ x $b$", "test.sql:1:8: ", "dollar quote is never closed"),
        ("SELECT 1;\nSELECT :nope;", "test.sql:2:8: ", "variable 'nope' is never set"),
    ] {
        let error = compile(text).expect_err(text);
        assert!(error.starts_with(place), "{text:?}: {error}");
        assert!(error.contains(message), "{text:?}: {error}");
    }
}

#[test]
fn the_caret_stands_under_the_fault() {
    let error = compile("SELECT 1;\n\t\\set x random(1, )\n").unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines[1], "   \\set x random(1, )");
    assert_eq!(lines[2].find('^'), lines[1].find(')'), "{error}");
}

#[test]
fn sizes_are_bounded() {
    let deep = format!("\\set x {}1{}", "(".repeat(100), ")".repeat(100));
    assert!(compile(&deep).unwrap_err().contains("nest at most 64 deep"));
    let minus = format!("\\set x {}1", "- ".repeat(100));
    assert!(compile(&minus).unwrap_err().contains("nest at most 64 deep"));
    let long = format!("SELECT '{}';", "x".repeat(70_000));
    assert!(compile(&long).unwrap_err().contains("at most 64 KiB"));
    let ifs = "\\if 1\n".repeat(65);
    assert!(compile(&ifs).unwrap_err().contains("nests at most 64 deep"));
    let huge = "SELECT 1;\n".repeat(1_700_000);
    assert!(compile(&huge).unwrap_err().contains("at most 16 MiB"));
}

#[test]
fn a_script_of_a_hundred_thousand_lines_is_read_in_one_pass() {
    let script = "\\set a random(1, 100)\nSELECT :a;\n".repeat(50_000);
    let workload = compile(&script).unwrap();
    assert_eq!(workload.scripts[0].commands.len(), 100_000);
    assert_eq!(workload.scripts[0].lines.last(), Some(&100_000));
}

#[test]
fn built_in_scripts_are_found_by_a_prefix_and_read() {
    assert_eq!(Builtin::find("t").unwrap(), Builtin::TpcbLike);
    assert_eq!(Builtin::find("select-only").unwrap(), Builtin::SelectOnly);
    assert!(Builtin::find("s").unwrap_err().to_string().contains("begins several"));
    assert!(Builtin::find("x").unwrap_err().to_string().contains("there is no built-in"));
    for builtin in Builtin::ALL {
        for spec in
            ["uniform", "gaussian:5", "exponential:2", "zipfian:0.99", "zipfian:1,scattered"]
        {
            let text = builtin.text(spec.parse().unwrap());
            let workload = compile(&text).unwrap_or_else(|error| panic!("{spec}: {error}"));
            let [Command::Set { .. }, ..] = workload.scripts[0].commands.as_slice() else {
                panic!("{spec}");
            };
        }
    }
    assert_eq!(name_and_weight("a@b@3", "-f").unwrap(), ("a@b", 3));
    assert_eq!(name_and_weight("a", "-f").unwrap(), ("a", 1));
    assert!(name_and_weight("a@x", "-f").is_err());
}

#[test]
fn a_workload_needs_a_script_with_weight() {
    let mut compiler = Compiler::new();
    compiler.add("zero", 0, "SELECT 1;").unwrap();
    assert!(compiler.finish().unwrap_err().to_string().contains("weight above zero"));
    assert!(Compiler::new().define("a b", Value::Null).is_err());
}

#[test]
fn text_variables_are_read_as_pgbench_reads_them() {
    for (text, expected) in [
        ("12", Value::Int(12)),
        ("1.5", Value::Double(1.5)),
        ("NULL", Value::Null),
        ("t", Value::Bool(true)),
        ("off", Value::Bool(false)),
        ("yes", Value::Bool(true)),
    ] {
        let mut compiler = Compiler::new();
        compiler.define("v", Value::Text(text.into())).unwrap();
        compiler.add("s", 1, "\\set x :v").unwrap();
        let workload = compiler.finish().unwrap();
        let mut variables = vec![Value::Null; workload.symbols.len()];
        for (slot, value) in &workload.initial {
            variables[slot.0 as usize] = value.clone();
        }
        let Command::Set { expression, .. } = &workload.scripts[0].commands[0] else { panic!() };
        let mut draws =
            Draws { stream: RandomStream::new(1, 0, Purpose::Script), call_sites: Vec::new() };
        assert_eq!(
            evaluate(expression, &variables, &mut draws, &mut |_| {}),
            Ok(expected),
            "{text}"
        );
    }
}

#[test]
fn no_text_makes_the_parser_panic_and_no_expression_the_evaluator() {
    use proptest::prelude::*;
    proptest!(|(text in "[ -~\n\r\t\\\\':;$()é]{0,200}")| {
        let _ = compile(&text);
    });
    let pieces = prop::sample::select(vec![
        "1",
        "-9223372036854775808",
        "9223372036854775807",
        "0",
        "2.5",
        "1e300",
        "true",
        "null",
        "+",
        "-",
        "*",
        "/",
        "%",
        "|",
        "&",
        "#",
        "<<",
        ">>",
        "~",
        "=",
        "<",
        ">=",
        "and",
        "or",
        "not",
        "is null",
        "(",
        ")",
        "abs(-5)",
        "int(1e18)",
        "case when true then",
        "else",
        "end",
        ",",
        "least(1, 2)",
        "hash(1)",
        "random(1, 10)",
        "sqrt(-1)",
        "permute(5, 10)",
    ]);
    proptest!(|(parts in prop::collection::vec(pieces, 1..12))| {
        let _ = run_sets(&format!("\\set x {}", parts.join(" ")));
    });
}

#[test]
fn pieces_put_together_are_the_statement() {
    let workload = compile("\\set a 1\nSELECT :a, ':a' FROM t WHERE x=:a").unwrap();
    let pieces = &workload.statements[0].pieces;
    assert_eq!(pieces.iter().filter(|piece| matches!(piece, Piece::Variable(_))).count(), 2);
}
