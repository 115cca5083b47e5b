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
    compiler.define_option("default_seed=7").unwrap();
    compiler.add("test.sql", 1, text).map_err(|error| error.to_string())?;
    compiler.finish().map_err(|error| error.to_string())
}

/// Runs the `\set` commands of a script; what it printed and the value that was set last.
fn run(workload: &Workload) -> Result<(Vec<String>, Value), String> {
    let mut variables = vec![Value::Unset; workload.symbols.len()];
    for (slot, value) in &workload.initial {
        variables[slot.0 as usize] = value.clone();
    }
    let mut draws = draws(workload);
    let mut printed = Vec::new();
    let mut last = Value::Unset;
    for command in &workload.scripts[0].commands {
        let Command::Set { variable, expression } = command else { continue };
        let mut print = |line: &str| printed.push(line.to_owned());
        last = evaluate(expression, &variables, &mut draws, &mut print)
            .map_err(|error| error.to_string())?;
        variables[variable.0 as usize] = last.clone();
    }
    Ok((printed, last))
}

fn run_sets(text: &str) -> Result<(Vec<String>, Value), String> {
    run(&compile(text)?)
}

fn draws(workload: &Workload) -> Draws {
    Draws {
        stream: RandomStream::new(1, 0, Purpose::Script),
        call_sites: vec![CallSite::default(); workload.call_sites.len()],
    }
}

/// What is said of an expression, in the words of the golden file.
fn said(expression: &str) -> String {
    match compile(&format!("\\set x debug({expression})")) {
        Err(_) => "SYNTAX".to_owned(),
        Ok(workload) => match run(&workload) {
            Ok((printed, _)) => printed.last().cloned().unwrap_or_default(),
            Err(message) => format!("ERROR {message}"),
        },
    }
}

/// Whether an error is told in pgbench's words; ours says the place behind them, and numbers may be
/// written in another way.
fn is_same_error(ours: &str, theirs: &str) -> bool {
    let stem = |text: &str| text.split([' ', '(', ':']).take(6).collect::<Vec<_>>().join(" ");
    ours.starts_with("ERROR") && theirs.starts_with("ERROR") && stem(ours) == stem(theirs)
        || ours.strip_prefix(theirs).is_some_and(|rest| rest.starts_with([' ', ':']))
}

#[test]
fn expressions_have_the_values_that_pgbench_gives_them() {
    let golden = include_str!("testdata/pgbench_expressions.txt");
    let mut wrong = String::new();
    let mut count = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let (expression, expected) = line.split_once(" => ").unwrap();
        let expected = expected.split_once(" !! ").map_or(expected, |(_, ours)| ours);
        count += 1;
        let ours = said(expression);
        if ours != expected && !is_same_error(&ours, expected) {
            writeln!(wrong, "{expression}: {expected}, we say {ours}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 300);
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
                if !super::value::truth(&value).unwrap() {
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
        ("\\set x sqrt(1, 2)", "test.sql:1:8: ", "takes 1 argument, not 2"),
        ("\\set x 1 = 2 = 3", "test.sql:1:14: ", "do not chain"),
        ("\\set x y", "test.sql:1:8: ", "write :y for a variable"),
        ("\\set x 99999999999999999999", "test.sql:1:8: ", "is out of range"),
        ("\\set x 9223372036854775808", "test.sql:1:8: ", "is out of range"),
        ("\\set x 1e999", "test.sql:1:8: ", "out of range"),
        ("\\set x :", "test.sql:1:8: ", "must be followed by a variable's name"),
        ("\\set x 1 @ 2", "test.sql:1:10: ", "unexpected character '@'"),
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
        ("SELECT 1 \\gset\n\\gset", "test.sql:2:1: ", "has one already"),
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

#[test]
fn a_colon_that_is_sqls_own_stays_and_a_name_that_nothing_sets_is_an_error() {
    let texts = |text: &str| -> Vec<String> {
        compile(text).unwrap().statements.into_iter().map(|statement| statement.text).collect()
    };
    // Slices and JSON constructors: a name without a value is SQL's.
    assert_eq!(
        texts("SELECT a[1:n], a[lo:hi], a[:n] FROM t"),
        ["SELECT a[1:n], a[lo:hi], a[:n] FROM t"]
    );
    assert_eq!(texts("SELECT JSON_OBJECT('k':v, 'l' :w)"), ["SELECT JSON_OBJECT('k':v, 'l' :w)"]);
    assert_eq!(texts("\\set n 2\nSELECT a[1:n]"), ["SELECT a[1$1]"]);
    assert_eq!(
        texts("SELECT x::int, y:::int, z := 1, '12'::text, a::\"b\", 12:34"),
        ["SELECT x::int, y:::int, z := 1, '12'::text, a::\"b\", 12:34"]
    );
    for text in [
        "SELECT (:n)",
        "SELECT a[(:n)]",
        "SELECT f(:n)",
        "\\set x :n",
        "\\sleep :n",
        "\\if :n\n\\endif",
    ] {
        let error = compile(text).expect_err(text);
        assert!(error.contains("variable 'n' is never set"), "{text}: {error}");
    }
    let error = compile("SELECT 1;\n\\set x 1 + \\\n   :nope").unwrap_err();
    assert!(error.starts_with("test.sql:3:4: variable 'nope' is never set"), "{error}");
    // Set by another script, or by a column.
    let mut compiler = Compiler::new();
    compiler.add("one", 1, "SELECT :other, :scale").unwrap();
    compiler.add("two", 1, "\\set other 1").unwrap();
    let error = compiler.finish().unwrap_err().to_string();
    assert!(error.starts_with("one:1:16: variable 'scale' is not known"), "{error}");
    compile("SELECT 1 AS a \\gset p_\nSELECT :p_a").unwrap();
    compile("SELECT 1 AS a \\gset p_\nSELECT :q_a").unwrap_err();
    compile("SELECT 1 AS a \\gset\nSELECT :q_a").unwrap();
}

#[test]
fn a_name_within_a_literal_is_text_and_said_to_be() {
    let workload =
        compile("\\set aid 1\nSELECT ':aid', '12:aid', $$:aid$$, '::aid', ':other';").unwrap();
    assert!(workload.statements[0].parameters.is_empty());
    let [remark] = workload.remarks.as_slice() else { panic!("{:?}", workload.remarks) };
    assert!(
        remark.to_string().starts_with("test.sql:2:9: :aid within a literal is text"),
        "{remark}"
    );
}

#[test]
fn sql_ends_where_psql_ends_it() {
    for (text, expected) in [
        // Empty queries measure the way there and back.
        (";", vec![""]),
        ("SELECT 1;;", vec!["SELECT 1", ""]),
        ("/* hint */ SELECT 1", vec!["/* hint */ SELECT 1"]),
        ("-- c\n\n  -- d\n SELECT 1 -- e\n", vec!["SELECT 1 -- e"]),
        (
            "SELECT 1 /* a /* b */ ; c */ + 1; SELECT 2",
            vec!["SELECT 1 /* a /* b */ ; c */ + 1", "SELECT 2"],
        ),
        (
            "SELECT 'a;b', \"c;d\", $x$;$$;$x$, E'\\';', 'it''s;'",
            vec!["SELECT 'a;b', \"c;d\", $x$;$$;$x$, E'\\';', 'it''s;'"],
        ),
        // A backslash escapes in E'' only; a name may end in e, and hold dollar signs.
        ("SELECT 'a\\'; SELECT 2", vec!["SELECT 'a\\'", "SELECT 2"]),
        (
            "SELECT typee'a\\'; SELECT a$b$; SELECT $1",
            vec!["SELECT typee'a\\'", "SELECT a$b$", "SELECT $1"],
        ),
        ("SELECT 1 \\; SELECT 2 \\; SELECT 3;", vec!["SELECT 1 ; SELECT 2 ; SELECT 3"]),
        ("\\set x 1\nSELECT a\\:x, b\\::int", vec!["SELECT a$1, b::int"]),
        ("SELECT (1;2); SELECT a[1;2]", vec!["SELECT (1;2)", "SELECT a[1", "2]"]),
        (
            "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; \
             SELECT 2; END; SELECT 3",
            vec![
                "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 \
                 END; SELECT 2; END",
                "SELECT 3",
            ],
        ),
        ("BEGIN; SELECT 1; END;", vec!["BEGIN", "SELECT 1", "END"]),
        (
            "CREATE PROCEDURE p() BEGIN ATOMIC; END; SELECT 1",
            vec!["CREATE PROCEDURE p() BEGIN ATOMIC; END", "SELECT 1"],
        ),
        (
            "CREATE TABLE function (begin int); SELECT 1",
            vec!["CREATE TABLE function (begin int)", "SELECT 1"],
        ),
        // A statement need not end before a backslash command.
        ("SELECT 1\n\\set x 2\nSELECT 2", vec!["SELECT 1", "SELECT 2"]),
        ("\\\nSELECT 1; \\\n", vec!["SELECT 1"]),
        (
            "SELECT '\u{e4};\u{4e2d}', \u{e4}\u{f6};SELECT 2",
            vec!["SELECT '\u{e4};\u{4e2d}', \u{e4}\u{f6}", "SELECT 2"],
        ),
    ] {
        let workload = compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let texts: Vec<&str> = workload.statements.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts, expected, "{text}");
    }
}

#[test]
fn a_variable_is_known_by_any_name_that_pgbench_allows() {
    let workload =
        compile("\\set _a1 1\n\\set gr\u{f6}\u{df}e 2\nSELECT :_a1+:gr\u{f6}\u{df}e,:_a1;")
            .unwrap();
    assert_eq!(workload.statements[0].text, "SELECT $1+$2,$3");
    let parameters = &workload.statements[0].parameters;
    assert!(parameters[0] == parameters[2] && parameters[0] != parameters[1]);
}

#[test]
fn pipelines_may_depend_on_conditions_as_long_as_they_can_be_right() {
    for good in [
        "\\startpipeline\n\\if 1\nSELECT 1;\n\\else\nSELECT 2;\n\\endif\n\\endpipeline",
        "\\if 1\n\\startpipeline\n\\else\n\\startpipeline\n\\endif\n\\syncpipeline\n\\endpipeline",
        "\\set a 1\n\\if :a\n\\startpipeline\n\\endif\nSELECT 1;\n\\if :a\n\\endpipeline\n\\endif",
        "\\if 1\n\\startpipeline\nSELECT 1;\n\\endpipeline\n\\endif\n\\startpipeline\n\\endpipeline",
        "\\startpipeline\n\\endpipeline\nSELECT 1 \\gset",
    ] {
        compile(good).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    for (bad, message) in [
        ("\\startpipeline\n\\if 1\n\\startpipeline\n\\endif\n\\endpipeline", "open already"),
        ("\\if 1\n\\endpipeline\n\\endif", "without \\startpipeline"),
        ("\\if 1\n\\startpipeline\n\\else\n\\startpipeline\n\\endif", "never ended"),
        (
            "\\if 1\n\\startpipeline\nSELECT 1 \\gset\n\\endpipeline\n\\endif",
            "not allowed in a pipeline",
        ),
        ("\\if 1\n\\startpipeline\n\\else\n\\syncpipeline\n\\endif", "outside of a pipeline"),
    ] {
        let error = compile(bad).expect_err(bad);
        assert!(error.contains(message), "{bad}: {error}");
    }
}

#[test]
fn commands_have_the_numbers_that_pgbench_gives_them() {
    let workload = compile(
        "\\set a 1\n\\if :a\nSELECT 1 \\gset\n\\elif 0\n\\set b 1\n\\else\n\\set b 2\n\\endif\n\\set c 3",
    )
    .unwrap();
    let script = &workload.scripts[0];
    let sets: Vec<u32> = (0..script.commands.len())
        .filter(|index| matches!(script.commands[*index], Command::Set { .. }))
        .map(|index| script.number(index))
        .collect();
    // \set \if SELECT \elif \set \else \set \endif \set
    assert_eq!(sets, [1, 5, 7, 9]);
}

#[test]
fn what_fails_while_running_tells_its_place() {
    for (text, expected) in [
        ("\\set x 1\n\\set y 5 + :x / 0", "division by zero at 2:15"),
        ("\\set m -9223372036854775808\n\\set y :m / -1", "bigint div out of range at 2:11"),
        ("\\set y 1 + \\\n  (2 - \\\n  true)", "cannot coerce boolean to int at 2:6"),
        ("\\set y random(1, \\\n 0)", "empty range given to random"),
        ("SELECT 1 AS late \\gset\n\\set y :late", "undefined variable \"late\" at 2:8"),
        ("\\set y case when 1 then not 1 end", "cannot coerce int to boolean at 1:25"),
    ] {
        let error = run_sets(text).expect_err(text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let mut compiler = Compiler::new();
    compiler.define_option("v=12x").unwrap();
    compiler.add("s", 1, "\\set y 1 + :v").unwrap();
    let error = run(&compiler.finish().unwrap()).unwrap_err();
    assert!(error.starts_with("variable \"v\": malformed value \"12x\""), "{error}");
    assert!(error.ends_with("at 1:12"), "{error}");
}

#[test]
fn a_long_expression_takes_no_deep_stack() {
    let sum = |terms: usize| format!("\\set a 1\n\\set x {}", vec![":a"; terms].join("+"));
    let (_, value) = run_sets(&sum(5_000)).unwrap();
    assert_eq!(value, Value::Int(5_000));
    let constants = format!("\\set x {}", vec!["1"; 30_000].join("+"));
    assert_eq!(run_sets(&constants).unwrap().1, Value::Int(30_000));
    assert!(compile(&sum(6_000)).unwrap_err().contains("at most 10000 operations"));
    let powers = format!("\\set x {}", vec!["not"; 60].join(" ")) + " true";
    assert_eq!(run_sets(&powers).unwrap().1, Value::Bool(true));
    // Wide and deep at once: the stack is higher than usual.
    let wide =
        "greatest(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,".repeat(40) + "int(0.5)" + &")".repeat(40);
    assert_eq!(run_sets(&format!("\\set x {wide}")).unwrap().1, Value::Int(15));
}

#[test]
fn constants_are_folded_and_what_would_fail_is_left_for_the_run() {
    let code = |text: &str| {
        let workload = compile(text).unwrap();
        match &workload.scripts[0].commands[0] {
            Command::Set { expression, .. } => expression.code.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code("\\set x -(2 + 3) * pow(2, 3) % 7"), 1);
    assert_eq!(code("\\set x case when true then 1 / 0 else 2 end"), 7);
    assert_eq!(code("\\set x random(1, 100000 * :scale)"), 5);
    assert_eq!(code("\\set x 1 / 0"), 3);
}

#[test]
fn scripts_of_before_9_6_are_read() {
    let (_, value) = run_sets("\\set top 5\n\\setrandom x 5 :top\n\\set y :x + 1").unwrap();
    assert_eq!(value, Value::Int(6));
    for text in [
        "\\setrandom x 1 10 uniform",
        "\\setrandom x 1 10 gaussian 2.5",
        "\\setrandom x 1 10 Exponential 3",
        "\\SETRANDOM x -5 -1",
    ] {
        run_sets(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    for (text, place, message) in [
        ("\\setrandom x 1", "1:1", "least and a largest value"),
        ("\\setrandom x 1 (2)", "1:16", "a number or a :variable"),
        ("\\setrandom 1 2 3", "1:12", "is not a variable's name"),
        ("\\setrandom x 1 :nope", "1:1", "'nope' is never set"),
        ("\\setrandom x 1 2 gaussian", "1:1", "least and a largest value"),
        ("\\setrandom x 1 1.2.3", "1:1", "expected"),
    ] {
        let error = compile(text).expect_err(text);
        assert!(error.starts_with(&format!("test.sql:{place}: ")), "{text}: {error}");
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn pauses_are_read_as_pgbench_reads_them() {
    use super::script::SleepDuration;
    for (text, units, unit_ns) in [
        ("\\sleep 1", 1, 1_000_000_000),
        ("\\sleep 10ms", 10, 1_000_000),
        ("\\sleep 10 US", 10, 1_000),
        ("\\sleep +2s", 2, 1_000_000_000),
        ("\\sleep -5 ms", 0, 1_000_000),
        ("\\SLEEP \\\n 7 \\\n ms", 7, 1_000_000),
    ] {
        let workload = compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        match &workload.scripts[0].commands[0] {
            Command::Sleep { duration, unit_ns: found } => {
                assert_eq!(
                    (*duration, *found),
                    (SleepDuration::Constant(units), unit_ns),
                    "{text}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    for text in
        ["\\sleep x", "\\sleep 1.5", "\\sleep 1 h", "\\sleep 99999999999999999999", "\\sleep :1"]
    {
        assert!(compile(text).is_err(), "{text}");
    }
}

#[test]
fn options_define_variables_and_never_another_scale() {
    let mut compiler = Compiler::new();
    compiler.define("scale", Value::Int(7)).unwrap();
    compiler.define_option("scale=7").unwrap();
    compiler.define_option("a=b=c").unwrap();
    let error = compiler.define_option("scale=8").unwrap_err().to_string();
    assert!(error.contains("scale is 7 in the database, and cannot be 8"), "{error}");
    for wrong in ["x", "x=", "=3", "1x=3", "a b=1", ""] {
        assert!(compiler.define_option(wrong).is_err(), "{wrong}");
    }
    compiler.add("s", 1, "SELECT :a").unwrap();
    let workload = compiler.finish().unwrap();
    let slot = workload.symbols.find("a").unwrap();
    assert!(workload.initial.contains(&(slot, Value::Text("b=c".into()))));
}

#[test]
fn keys_of_every_builtin_stay_in_range_at_any_scale() {
    use proptest::prelude::*;
    let max = i64::try_from(super::scale::SCALE_MAX).unwrap();
    let specs = ["uniform", "gaussian:2", "exponential:9", "zipfian:0.5", "zipfian:1.2,scattered"];
    let scales = prop_oneof![1..=max, Just(25_000_i64), Just(max), Just(1)];
    proptest!(|(scale in scales, spec in prop::sample::select(specs.to_vec()))| {
        for builtin in Builtin::ALL {
            let mut compiler = Compiler::new();
            compiler.define("scale", Value::Int(scale)).unwrap();
            compiler.add("b", 1, &builtin.text(spec.parse().unwrap())).unwrap();
            let workload = compiler.finish().unwrap();
            let mut variables = vec![Value::Unset; workload.symbols.len()];
            for (slot, value) in &workload.initial {
                variables[slot.0 as usize] = value.clone();
            }
            let mut draws = draws(&workload);
            for command in &workload.scripts[0].commands {
                let Command::Set { variable, expression } = command else { continue };
                let value = evaluate(expression, &variables, &mut draws, &mut |_| {}).unwrap();
                let Value::Int(key) = value else { panic!("{value:?}") };
                let range = match workload.symbols.name(*variable) {
                    "aid" => 1..=100_000 * scale,
                    "bid" => 1..=scale,
                    "tid" => 1..=10 * scale,
                    _ => -5_000..=5_000,
                };
                prop_assert!(range.contains(&key), "{spec} at {scale}: {key}");
            }
            // Each random function counts its draws for the audit.
            let audited = draws.call_sites.iter().filter(|site| site.audit("s").is_some()).count();
            prop_assert!(audited >= 1);
        }
    });
}

#[test]
fn a_drawn_key_of_a_scattered_builtin_is_the_one_that_the_distribution_command_draws() {
    use crate::distribution::Sampler;
    let text = Builtin::SelectOnly.text("zipfian:0.99,scattered".parse().unwrap());
    let mut compiler = Compiler::new();
    compiler.define("scale", Value::Int(3)).unwrap();
    compiler.add("b", 1, &text).unwrap();
    let (_, value) = run(&compiler.finish().unwrap()).unwrap();
    let sampler = Sampler::new("zipfian:0.99,scattered".parse().unwrap(), 299_999);
    let draw = sampler.draw(&mut RandomStream::new(1, 0, Purpose::Script));
    assert_eq!(value, Value::Int(1 + draw.index.cast_signed()));
}

#[test]
fn a_script_full_of_errors_or_names_is_still_read_in_one_pass() {
    // Each of these was quadratic in some parser: unknown names, open brackets, comments, line ends.
    let names: String = (0..40_000).map(|n| format!("SELECT :v{n};\n")).collect();
    assert!(compile(&names).unwrap_err().contains("'v0' is never set"));
    let captured = format!("SELECT 1 \\gset\n{names}");
    assert_eq!(compile(&captured).unwrap().statements.len(), 40_001);
    let open = "[".repeat(60_000);
    assert!(compile(&format!("SELECT {open}\n;")).is_ok());
    let comments = "/* */ \n".repeat(100_000) + ";";
    assert_eq!(compile(&comments).unwrap().statements.len(), 1);
    let continued = format!("\\set x 1{}", " \\\n + 1".repeat(100_000));
    assert_eq!(run_sets(&continued).unwrap().1, Value::Int(100_001));
}

#[test]
fn a_long_line_is_shown_around_the_fault_and_hides_nothing() {
    let text = format!("\\set x {} @ \u{202e}9", "1 + ".repeat(100));
    let error = compile(&text).unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(lines[1].chars().count() < 110 && lines[1].is_ascii(), "{error}");
    let column = lines[2].find('^').unwrap();
    assert_eq!(lines[1].chars().nth(column), Some('@'), "{error}");
    let shown = compile("\\set x '\u{202e}\u{7}' @").unwrap_err();
    assert!(!shown.contains(['\u{202e}', '\u{7}']), "{shown}");
}
