//! The files of the repository, as the rules see them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 4] = [".git", "target", "results", ".cache"];

/// Text files by path from the root. Files that are not text have an empty text.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the files that git tracks below `root`, or all files where there is no git.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        let listed = std::process::Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .stderr(std::process::Stdio::null())
            .output();
        match listed {
            Ok(output) if output.status.success() => {
                for path in String::from_utf8_lossy(&output.stdout).split('\0') {
                    // A file that was deleted but is still tracked is not there to be read.
                    if !path.is_empty() && root.join(path).is_file() {
                        tree.add(root, path)?;
                    }
                }
            }
            _ => tree.walk(root, "")?,
        }
        Ok(tree)
    }

    /// A tree of these files.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let owned = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self { files: owned.collect() }
    }

    /// How many files there are.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// All files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Rust sources.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| has_extension(path, "rs"))
    }

    /// The text of a file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether there is a file or a folder with files at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty() || self.files.contains_key(path) || self.has_folder(path)
    }

    /// Whether there is a folder with files at `path`.
    pub(super) fn has_folder(&self, path: &str) -> bool {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        self.files.range(prefix.clone()..).next().is_some_and(|(key, _)| key.starts_with(&prefix))
    }

    /// Whether a source is only compiled for tests, benchmarks or examples: by its folder, or since
    /// the module above declares it so.
    pub(super) fn is_test(&self, path: &str) -> bool {
        if is_test_folder(path) {
            return true;
        }
        let Some((folder, file)) = path.rsplit_once('/') else { return false };
        // `a/mod.rs` is declared beside the folder `a`, `b.rs` in the module that owns its folder.
        let (folder, module) = match file.strip_suffix(".rs") {
            Some("mod") => folder.rsplit_once('/').unwrap_or(("", folder)),
            Some(module) => (folder, module),
            None => return false,
        };
        let owners = [
            format!("{folder}/mod.rs"),
            format!("{folder}/lib.rs"),
            format!("{folder}/main.rs"),
            format!("{folder}.rs"),
        ];
        owners.iter().filter_map(|owner| self.text(owner).map(|text| (owner, text))).any(
            |(owner, text)| {
                declares_for_tests(text, module) || (owner != path && self.is_test(owner))
            },
        )
    }

    fn walk(&mut self, root: &Path, folder: &str) -> anyhow::Result<()> {
        for entry in std::fs::read_dir(root.join(folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.walk(root, &path)?;
            } else if kind.is_file() {
                self.add(root, &path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, root: &Path, path: &str) -> anyhow::Result<()> {
        let bytes =
            std::fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        self.files.insert(path.to_owned(), String::from_utf8(bytes).unwrap_or_default());
        Ok(())
    }
}

/// Whether the path ends with this extension.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Whether the path is one of tests, benchmarks or examples by its folder.
fn is_test_folder(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples" | "fuzz"))
}

/// The lines of a source before its test module, numbered from 1.
pub(super) fn lines_without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let end = lines
        .windows(2)
        .position(|pair| {
            pair[0].trim() == "#[cfg(test)]"
                && pair[1].trim_start_matches("pub(crate) ").starts_with("mod ")
                && pair[1].trim_end().ends_with('{')
        })
        .unwrap_or(lines.len());
    lines.into_iter().take(end).enumerate().map(|(index, line)| (index + 1, line))
}

/// Whether a source declares `module` under `#[cfg(test)]`.
fn declares_for_tests(text: &str, module: &str) -> bool {
    let declaration = format!("mod {module};");
    let mut is_for_tests = false;
    for line in text.lines().map(str::trim) {
        if line == "#[cfg(test)]" {
            is_for_tests = true;
        } else if !line.starts_with("#[") {
            if is_for_tests && line.ends_with(&declaration) {
                return true;
            }
            is_for_tests = false;
        }
    }
    false
}

/// Whether the line is a comment from its first character.
pub(super) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}
