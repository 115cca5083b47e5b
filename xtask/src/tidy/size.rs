//! A source file has at most 800 lines without its tests: what is longer has more than one job.

use super::Finding;
use super::tree::{Tree, lines_without_tests};

const LINES_MAX: usize = 800;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources()
        .filter(|(path, _)| !tree.is_test(path))
        .filter_map(|(path, text)| {
            let lines = lines_without_tests(text).count();
            (lines > LINES_MAX).then(|| {
                Finding::new(
                    path,
                    0,
                    format!(
                        "{lines} lines without tests, at most {LINES_MAX}: give each job a file"
                    ),
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found_and_long_tests_are_not() {
        let long = "line\n".repeat(801);
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{long}}}\n", "line\n".repeat(800));
        let tree = Tree::of(&[
            ("crates/a/src/long.rs", &long),
            ("crates/a/src/tested.rs", &tested),
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod samples;\nmod long;\nmod tested;\n"),
            ("crates/a/src/samples.rs", &long),
            ("crates/a/tests/main.rs", &long),
            ("notes.md", &long),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/a/src/long.rs");
    }
}
