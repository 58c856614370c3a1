//! House rules that no compiler checks.
//!
//! 1. Nothing unfinished and nothing silenced is left behind in the code.
//! 2. A file holds one idea: at most [`LINES_MAX`] lines.
//! 3. Every dependency has its reason beside it.
//! 4. Nothing points at somebody's machine.
//! 5. The papers are there.
//! 6. Every sabotage that is listed is in the code, and the other way round.
//! 7. Every module says what it is for, and every package keeps the workspace's lints.
//!
//! It does not check style: rustfmt and clippy do.

use crate::shell::{Failure, root};
use semel_core::sabotage;
use std::{collections::BTreeSet, fs, path::Path};

const LINES_MAX: usize = 600;

const PAPERS: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Written in two pieces, so that this file does not find itself.
const UNFINISHED: [&str; 8] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[all", "ow("),
    concat!("#![all", "ow("),
    concat!("expect(dead", "_code"),
];

const MACHINE_PATHS: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("C:", "\\"),
];

/// Directories that are nobody's source.
const SKIPPED: [&str; 4] = [".git", "target", "semel-data", "node_modules"];

/// A file of the project: its path from the root, and what it says.
struct Source {
    path: String,
    text: String,
}

pub(crate) fn run() -> Result<(), Failure> {
    let mut sources = Vec::new();
    gather(&root(), "", &mut sources)
        .map_err(|error| Failure::usage(format!("cannot read the project's files: {error}")))?;
    let findings = check(&sources);
    if findings.is_empty() {
        println!("    {} files are tidy", sources.len());
        return Ok(());
    }
    Err(Failure::no(format!("not tidy:\n{}", findings.join("\n"))))
}

fn gather(directory: &Path, prefix: &str, sources: &mut Vec<Source>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                gather(&entry.path(), &format!("{path}/"), sources)?;
            }
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            // What is not UTF-8 is a fixture.
            sources.push(Source { path, text });
        }
    }
    Ok(())
}

fn check(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        findings.extend(unfinished(source));
        findings.extend(too_long(source));
        findings.extend(machine_paths(source));
        findings.extend(undocumented(source));
        findings.extend(unlinted(source));
        findings.extend(unexplained_dependencies(source));
    }
    findings.extend(missing_papers(sources));
    let listed: Vec<_> = sabotage::all().map(|it| (it.name, it.caught_by)).collect();
    findings.extend(stray_sabotages(sources, &listed));
    findings.sort();
    findings
}

impl Source {
    fn is_rust(&self) -> bool {
        self.is(".rs")
    }

    fn is(&self, ending: &str) -> bool {
        self.path.ends_with(ending)
    }

    /// Every place where one of these stands.
    fn places(&self, needles: &[&str]) -> Vec<String> {
        let mut places = Vec::new();
        for (number, line) in (1..).zip(self.text.lines()) {
            for needle in needles.iter().filter(|it| line.contains(**it)) {
                places.push(format!("{}:{number}: `{needle}`", self.path));
            }
        }
        places
    }
}

fn unfinished(source: &Source) -> Vec<String> {
    if source.is_rust() { source.places(&UNFINISHED) } else { Vec::new() }
}

fn machine_paths(source: &Source) -> Vec<String> {
    if source.is("Cargo.lock") { Vec::new() } else { source.places(&MACHINE_PATHS) }
}

fn too_long(source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    (source.is_rust() && lines > LINES_MAX).then(|| {
        format!("{}: {lines} lines, more than {LINES_MAX}: which of its ideas can stand alone?", source.path)
    })
}

fn undocumented(source: &Source) -> Option<String> {
    let is_module = source.is_rust() && source.path.contains("src/");
    (is_module && !source.text.starts_with("//!"))
        .then(|| format!("{}: does not begin by saying what it is for (`//!`)", source.path))
}

fn unlinted(source: &Source) -> Option<String> {
    let is_member =
        source.is("/Cargo.toml") && (source.path.starts_with("crates/") || source.path.starts_with("xtask/"));
    (is_member && !source.text.contains("[lints]\nworkspace = true"))
        .then(|| format!("{}: does not keep the workspace's lints", source.path))
}

/// Outside crates are named in the workspace's manifest only, each with the reason it is there.
fn unexplained_dependencies(source: &Source) -> Vec<String> {
    if source.path != "Cargo.toml" {
        return Vec::new();
    }
    let lines = (1..).zip(source.text.lines());
    let lines = lines.skip_while(|(_, line)| *line != "[workspace.dependencies]").skip(1);
    lines
        .take_while(|(_, line)| !line.starts_with('['))
        .filter(|(_, line)| line.contains('=') && !line.contains("path =") && !line.contains('#'))
        .map(|(number, line)| format!("Cargo.toml:{number}: no reason beside `{line}`"))
        .collect()
}

fn missing_papers(sources: &[Source]) -> Vec<String> {
    let is_missing = |paper: &&&str| !sources.iter().any(|it| it.path == **paper);
    PAPERS.iter().filter(is_missing).map(|it| format!("{it}: missing")).collect()
}

fn stray_sabotages(sources: &[Source], listed: &[(&str, &str)]) -> Vec<String> {
    let in_code = |it: &&Source| it.is_rust() && it.path.starts_with("crates/") && it.path.contains("/src/");
    let sites: BTreeSet<&str> = sources.iter().filter(in_code).flat_map(|it| named_sites(&it.text)).collect();
    let names: BTreeSet<&str> = listed.iter().map(|(name, _)| *name).collect();
    let mut findings = Vec::new();
    findings.extend(
        names.difference(&sites).map(|it| format!("sabotage `{it}` is listed, but nowhere in the code")),
    );
    findings
        .extend(sites.difference(&names).map(|it| format!("sabotage `{it}` is in the code, but not listed")));
    let unfiltered = listed.iter().filter(|(_, caught_by)| caught_by.trim().is_empty());
    findings.extend(unfiltered.map(|(name, _)| format!("sabotage `{name}` does not say what catches it")));
    if names.len() < listed.len() {
        findings.push("two sabotages have the same name".to_owned());
    }
    findings
}

/// The names that a file asks for: what follows `is_on` in quotes, outside comments.
fn named_sites(text: &str) -> Vec<&str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let sites = code.flat_map(|line| line.split("is_on(\"").skip(1));
    sites.filter_map(|it| it.split_once('"').map(|(name, _)| name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn what_is_unfinished_is_found_with_its_line() {
        let text = format!("fn one() {{}}\n// {} later\n", UNFINISHED[0]);
        assert_eq!(
            unfinished(&source("crates/a/src/lib.rs", &text)),
            [format!("crates/a/src/lib.rs:2: `{}`", UNFINISHED[0])]
        );
        assert!(unfinished(&source("notes.md", &text)).is_empty());
    }

    #[test]
    fn a_path_of_a_machine_is_found_in_any_file() {
        let text = format!("see {}somebody/notes", MACHINE_PATHS[0]);
        assert_eq!(machine_paths(&source("README.md", &text)).len(), 1);
    }

    #[test]
    fn a_long_file_is_found() {
        assert!(too_long(&source("a.rs", &"\n".repeat(LINES_MAX + 1))).is_some());
        assert!(too_long(&source("a.rs", &"\n".repeat(LINES_MAX))).is_none());
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let manifest = "[package]\nname = \"a\"\n[workspace.dependencies]\nown = { path = \"own\" }\n\
                        good = \"1\" # because\nbad = \"1\"\n[profile.dev]\ndebug = false\n";
        assert_eq!(
            unexplained_dependencies(&source("Cargo.toml", manifest)),
            ["Cargo.toml:6: no reason beside `bad = \"1\"`"]
        );
    }

    #[test]
    fn sabotages_that_are_only_listed_or_only_in_the_code_are_found() {
        let code = source(
            "crates/a/src/lib.rs",
            "if is_on(\"in-code\") && is_on(\"both\") {}\n// is_on(\"comment\")",
        );
        let findings = stray_sabotages(&[code], &[("both", "all()"), ("listed", "all()")]);
        assert_eq!(
            findings,
            [
                "sabotage `listed` is listed, but nowhere in the code",
                "sabotage `in-code` is in the code, but not listed"
            ]
        );
    }

    #[test]
    fn a_module_without_words_and_a_package_without_lints_are_found() {
        assert!(undocumented(&source("crates/a/src/b.rs", "fn main() {}")).is_some());
        assert!(undocumented(&source("crates/a/tests/ui/b.rs", "fn main() {}")).is_none());
        assert!(unlinted(&source("crates/a/Cargo.toml", "[package]")).is_some());
        assert!(unlinted(&source("crates/a/Cargo.toml", "[lints]\nworkspace = true\n")).is_none());
    }

    #[test]
    fn missing_papers_are_named() {
        let all: Vec<_> = PAPERS.iter().map(|it| source(it, "")).collect();
        assert!(missing_papers(&all).is_empty());
        assert_eq!(missing_papers(&all[1..]), ["README.md: missing"]);
    }
}
