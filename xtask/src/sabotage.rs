//! Switches on every seeded bug in turn, and demands that a test fails.
//!
//! 1. The tests are built once with the bugs in them, all switched off, and must then pass.
//! 2. A bug counts as caught only if at least one of the tests named for it ran and failed.
//! 3. A filter that matches no test is a fault of the list, not a success.
//! 4. A bug that is named after a server is tried beside that server. If that was left out, so is the bug, and that
//!    is said.
//!
//! It does not judge tests by how many bugs they catch: one is enough.

use crate::{
    servers::{Kind, Servers},
    shell::{Captured, Failure, capture, cargo, run as run_command, target, works},
    steps::seconds,
};
use semel_core::sabotage::{ALL, Sabotage};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// Exit codes of nextest.
const TESTS_FAILED: i32 = 100;
const NO_TESTS: i32 = 4;

pub(crate) fn run(name: Option<&str>, without: &[Kind]) -> Result<(), Failure> {
    let mut chosen = choose(name)?;
    if !works(&mut cargo(&["nextest", "--version"])) {
        return Err(Failure::usage(
            "`cargo nextest` is missing\nhint: `cargo install --locked cargo-nextest`",
        ));
    }
    let servers = beside(&mut chosen, without)?;
    let built = Built::new(&chosen, &servers)?;
    baseline(&built, &chosen)?;
    let mut missed = Vec::new();
    for bug in &chosen {
        let start = Instant::now();
        let mut command = built.tests(&[bug.caught_by]);
        command.args(["--profile", "sabotage"]);
        let verdict = Verdict::of(&capture(command.env("SEMEL_SABOTAGE", bug.name))?);
        println!("    {:<34} {:>7}  {verdict}", bug.name, seconds(start.elapsed()));
        if !matches!(verdict, Verdict::Caught { .. }) {
            missed.push(format!("`{}` ({}): {verdict}", bug.name, bug.breaks));
        }
    }
    println!("    {} of {} sabotages caught", chosen.len() - missed.len(), chosen.len());
    if missed.is_empty() { Ok(()) } else { Err(Failure::no(missed.join("\n"))) }
}

fn choose(name: Option<&str>) -> Result<Vec<&'static Sabotage>, Failure> {
    let chosen: Vec<_> = ALL.iter().filter(|it| name.is_none_or(|name| name == it.name)).collect();
    match name {
        Some(name) if chosen.is_empty() => {
            let names: Vec<_> = ALL.iter().map(|it| it.name).collect();
            Err(Failure::usage(format!("no sabotage is called `{name}`\nhint: one of {}", names.join(", "))))
        }
        _ => Ok(chosen),
    }
}

/// Starts the servers that these bugs need, and leaves out the bugs whose server is.
fn beside(chosen: &mut Vec<&Sabotage>, without: &[Kind]) -> Result<Servers, Failure> {
    let is_needed = |it: &Kind| chosen.iter().any(|bug| server_of(bug) == Some(*it)) && !without.contains(it);
    let unneeded: Vec<_> = Kind::ALL.into_iter().filter(|it| !is_needed(it)).collect();
    let servers = Servers::start(&unneeded)?;
    chosen.retain(|bug| {
        let lacking = server_of(bug).filter(|it| unneeded.contains(it) || servers.missing().contains(it));
        if let Some(kind) = lacking {
            println!("LEFT OUT: `{}`, which needs {}", bug.name, kind.name());
        }
        lacking.is_none()
    });
    Ok(servers)
}

/// The server that a bug is tried beside, if it needs one: it is named after it.
fn server_of(bug: &Sabotage) -> Option<Kind> {
    let (first, _) = bug.name.split_once('_')?;
    Kind::ALL.into_iter().find(|it| it.name() == first)
}

/// With every bug switched off the tests pass: only then does a failure tell something.
fn baseline(built: &Built<'_>, chosen: &[&Sabotage]) -> Result<(), Failure> {
    let mut filters: Vec<_> = chosen.iter().map(|it| it.caught_by).collect();
    filters.sort_unstable();
    filters.dedup();
    let mut command = built.tests(&filters);
    run_command(command.env_remove("SEMEL_SABOTAGE").args(["--no-fail-fast", "--status-level", "fail"]))
        .map_err(|failure| Failure::no(format!("the tests fail with every bug switched off: {failure}")))
}

/// The tests, built with the bugs in them.
struct Built<'a> {
    binaries: PathBuf,
    metadata: PathBuf,
    servers: &'a Servers,
}

impl<'a> Built<'a> {
    fn new(chosen: &[&Sabotage], servers: &'a Servers) -> Result<Self, Failure> {
        // Of the stores, those that need no server, and those that bugs were chosen of.
        let is_chosen = |it: &Kind| chosen.iter().any(|bug| server_of(bug) == Some(*it));
        let stores = Kind::ALL.into_iter().filter(is_chosen).map(|it| format!("semel/{}", it.name()));
        let fixed = "semel-core/__sabotage,semel/axum,semel/jmespath,semel/seal,semel/sqlite".to_owned();
        let features = [fixed].into_iter().chain(stores).collect::<Vec<_>>().join(",");
        let features = ["--workspace", "--features", &features];
        let list = ["nextest", "list", "--list-type", "binaries-only", "--message-format", "json"];
        let binaries = keep("sabotage-binaries.json", cargo(&list).args(features))?;
        let metadata = keep("sabotage-metadata.json", &mut cargo(&["metadata", "--format-version", "1"]))?;
        Ok(Self { binaries, metadata, servers })
    }

    /// Runs the tests that match one of the filters.
    fn tests(&self, filters: &[&str]) -> Command {
        let mut command = cargo(&["nextest", "run", "--color", "never"]);
        command.arg("--binaries-metadata").arg(&self.binaries).arg("--cargo-metadata").arg(&self.metadata);
        for filter in filters {
            command.args(["-E", filter]);
        }
        command.envs(self.servers.variables());
        command
    }
}

/// Writes what a command prints to a file beside the build.
fn keep(name: &str, command: &mut Command) -> Result<PathBuf, Failure> {
    let captured = capture(command)?;
    if captured.code != Some(0) {
        return Err(Failure::no(format!("the tests cannot be built:\n{}", captured.stderr)));
    }
    let target = target();
    let path = target.join(name);
    let written = fs::create_dir_all(&target).and_then(|()| fs::write(&path, captured.stdout));
    written.map_err(|error| unwritable(&path, &error))?;
    Ok(path)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot write `{}`: {error}", path.display()))
}

/// What the tests made of a bug.
#[derive(PartialEq, Eq, Debug)]
enum Verdict {
    Caught { by: String },
    Missed,
    NothingRan,
    Unclear { code: Option<i32>, said: String },
}

impl Verdict {
    fn of(run: &Captured) -> Self {
        match run.code {
            Some(0) => Self::Missed,
            Some(NO_TESTS) => Self::NothingRan,
            Some(TESTS_FAILED) => match first_failure(&run.stderr) {
                Some(by) => Self::Caught { by },
                None => Self::Unclear { code: run.code, said: tail(&run.stderr) },
            },
            code => Self::Unclear { code, said: tail(&run.stderr) },
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught { by } => write!(f, "caught by {by}"),
            Self::Missed => f.write_str("MISSED: every test passed"),
            Self::NothingRan => f.write_str("MISSED: its filter matches no test"),
            Self::Unclear { code, said } => write!(f, "UNCLEAR: nextest ended with {code:?}: {said}"),
        }
    }
}

/// The first test that did not pass, as nextest names it: after the verdict, the time and the count.
fn first_failure(output: &str) -> Option<String> {
    let failed =
        |line: &&str| ["FAIL [", "TIMEOUT [", "SIG", "ABORT ["].iter().any(|it| line.starts_with(it));
    let line = output.lines().map(str::trim).find(failed)?;
    let name = line.split_once(']')?.1.trim();
    Some(
        name.strip_prefix('(').and_then(|it| it.split_once(')')).map_or(name, |(_, it)| it.trim()).to_owned(),
    )
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|it| !it.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(code: i32, stderr: &str) -> Verdict {
        Verdict::of(&Captured { code: Some(code), stdout: String::new(), stderr: stderr.to_owned() })
    }

    #[test]
    fn only_a_test_that_ran_and_failed_catches() {
        let failed = "   FAIL [   0.003s] (1/9) semel-core::model stale_fence_never_writes\n";
        assert_eq!(
            verdict(100, failed),
            Verdict::Caught { by: "semel-core::model stale_fence_never_writes".to_owned() }
        );
        let hung = "   TIMEOUT [  60.003s] (1/9) semel hangs\n";
        assert_eq!(verdict(100, hung), Verdict::Caught { by: "semel hangs".to_owned() });
        assert_eq!(verdict(0, ""), Verdict::Missed);
        assert_eq!(verdict(4, ""), Verdict::NothingRan);
        assert!(matches!(verdict(100, "no such line"), Verdict::Unclear { .. }));
        assert!(matches!(verdict(101, "error: could not compile"), Verdict::Unclear { .. }));
    }

    #[test]
    fn a_bug_is_tried_beside_the_server_that_it_is_named_after() {
        let server = |name| server_of(&Sabotage { name, breaks: "", caught_by: "" });
        assert_eq!(server("nats_revision_ignored"), Some(Kind::Nats));
        assert_eq!(server("sqlite_fence_ignored"), None);
        assert_eq!(server("fingerprint_ignored"), None);
    }

    #[test]
    fn an_unknown_name_is_refused() {
        assert!(choose(Some("no-such-bug")).is_err());
        assert_eq!(choose(None).expect("all of them").len(), ALL.len());
    }
}
