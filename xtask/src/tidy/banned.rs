//! Words, paths and calls that have no place in the repository.

use super::Finding;
use super::tree::{Tree, is_comment};

/// Text that is banned from sources and documents alike, with the remedy.
const WORDS: &[(&str, &str)] = &[
    ("todo!", "finish it, or return an honest error"),
    ("unimplemented!", "finish it, or return an honest error"),
    ("#[ignore", "a test that does not run tests nothing: make it run, or remove it"),
    ("/work/", "a path of one machine: make it relative, or take it from an option"),
    ("/root/", "a path of one machine: make it relative, or take it from an option"),
    ("/home/", "a path of one machine: make it relative, or take it from an option"),
    ("C:\\Users", "a path of one machine: make it relative, or take it from an option"),
    ("index.crates.io", "a registry's host is the business of who builds"),
    ("static.crates.io", "a registry's host is the business of who builds"),
    ("<<<<<<< ", "an unresolved merge"),
    (">>>>>>> ", "an unresolved merge"),
];

/// Calls that go around `evenkeel::runtime`, banned from sources outside of it. clippy.toml bans the
/// functions by path; these also catch what it cannot see (types, code of other platforms).
const DOORS: &[&str] = &[
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now()",
    "SystemTime::now()",
    "thread::spawn",
    "thread::sleep",
    "thread::scope",
    "thread::park",
    "thread::Builder",
    "std::sync::Condvar",
    "std::sync::mpsc",
];

/// The door itself.
const RUNTIME: &str = "crates/engine/src/runtime/";

/// Calls that go around `evenkeel::vfs`, banned from the engine outside of it: a file that the
/// simulated disk does not see is one whose loss nobody tests.
const FILES: &[&str] = &["std::fs", "rustix::fs", "File::open", "File::create", "OpenOptions::new"];

/// The only place of the engine that touches the system's files.
const FILE_DOOR: &str = "crates/engine/src/vfs/os.rs";

/// Where the words above are written down.
const RULES: &[&str] = &["xtask/src/tidy/", "clippy.toml", "Cargo.toml", ".gitignore"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        let names_rules = RULES.iter().any(|rule| path.starts_with(rule));
        if names_rules || path.ends_with("Cargo.lock") {
            continue;
        }
        let is_source = super::tree::has_extension(path, "rs");
        for (index, line) in text.lines().enumerate() {
            for (word, remedy) in WORDS {
                if line.contains(word) && !(is_document(path) && line.contains(&format!("`{word}")))
                {
                    findings.push(Finding::new(path, index + 1, format!("'{word}': {remedy}")));
                }
            }
            if !is_source || is_comment(line) || path.starts_with(RUNTIME) || tree.is_test(path) {
                continue;
            }
            if path.starts_with("crates/engine/src/") && path != FILE_DOOR {
                for call in FILES.iter().filter(|call| line.contains(**call)) {
                    findings.push(Finding::new(
                        path,
                        index + 1,
                        format!("'{call}' goes around the door: use evenkeel::vfs"),
                    ));
                }
            }
            for door in DOORS {
                // `runtime::Instant` is ours.
                if line.contains(door) && !line.contains("runtime::") {
                    findings.push(Finding::new(
                        path,
                        index + 1,
                        format!("'{door}' goes around the door: use evenkeel::runtime"),
                    ));
                }
            }
        }
    }
    findings
}

/// Documents may quote a banned word, in backquotes, to speak about it.
fn is_document(path: &str) -> bool {
    super::tree::has_extension(path, "md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_and_paths_of_one_machine_are_found() {
        for line in ["todo!()", "#[ignore = \"slow\"]", "open(\"/home/me/x\")", "<<<<<<< ours"] {
            let tree = Tree::of(&[("crates/lab/src/a.rs", line)]);
            assert_eq!(check(&tree).len(), 1, "{line}");
        }
        let tree = Tree::of(&[("STYLE.md", "no `todo!` and no `#[ignore]`"), ("a.md", "plain")]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn time_and_threads_around_the_door_are_found() {
        let spawn = "let task = std::thread::spawn(work);";
        let tree = Tree::of(&[
            ("crates/lab/src/driver/mod.rs", spawn),
            ("crates/lab/src/comment.rs", "// as std::thread::spawn would"),
            ("crates/lab/src/ours.rs", "use evenkeel::runtime::{Clock, Instant};"),
            ("crates/engine/src/runtime/os.rs", spawn),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/lab/src/driver/mod.rs");
    }

    #[test]
    fn files_of_the_engine_around_the_door_are_found() {
        let read = "let bytes = std::fs::read(path)?;";
        let tree = Tree::of(&[
            ("crates/engine/src/page/image.rs", read),
            ("crates/engine/src/vfs/os.rs", read),
            ("crates/lab/src/report/mod.rs", read),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/engine/src/page/image.rs");
    }
}
