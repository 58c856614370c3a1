//! The one test command.
//!
//! 1. Tools first: what can be installed is, what cannot is named with its remedy.
//! 2. Cheap checks before dear ones; a failed step does not hide the next one's findings.
//! 3. Every example is a program that checks itself, and is run.
//! 4. What a developer left out is said after the verdict.

use crate::{
    clients, sabotage,
    servers::Kind,
    shell::{Failure, cargo, root, run as run_command, works},
    steps::Steps,
    stores::{self, StoreTests},
    tidy,
};

pub(crate) fn run(without: &[Kind]) -> Result<(), Failure> {
    let has_nextest = tools()?;
    let store_tests = StoreTests::without(without.to_vec());
    let mut steps = Steps::default();
    steps.step("fmt", || run_command(&mut cargo(&["fmt", "--all", "--check"])));
    steps.step("tidy", tidy::run);
    steps.step("clippy", || {
        let all = ["--workspace", "--all-targets", "--features", &stores::features()];
        run_command(cargo(&["clippy"]).args(all).args(["--", "-D", "warnings"]))
    });
    steps.step("features", || {
        bare_packages()?;
        stores::each_alone()
    });
    steps.step("test", || unit_tests(has_nextest));
    steps.step("stores", || store_tests.run());
    steps.step("clients", clients::run);
    steps.step("doctest", || {
        let all = ["--doc", "--workspace", "--features", &stores::features()];
        run_command(cargo(&["test", "--quiet"]).args(all))
    });
    steps.step("doc", || {
        let all = ["--workspace", "--no-deps", "--features", &stores::features()];
        run_command(cargo(&["doc", "--quiet"]).args(all).env("RUSTDOCFLAGS", "-D warnings"))
    });
    steps.step("examples", examples);
    steps.step("sabotage", || sabotage::run(None, without));
    let verdict = steps.finish();
    store_tests.say_what_was_left_out();
    verdict
}

/// Checks what the steps need; says whether nextest is there.
fn tools() -> Result<bool, Failure> {
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !works(&mut cargo(&[tool, "--version"])) {
            return Err(Failure::usage(format!(
                "`cargo {tool}` is missing\nhint: `rustup component add {component}`"
            )));
        }
    }
    if works(&mut cargo(&["nextest", "--version"])) {
        return Ok(true);
    }
    println!("==> installing cargo-nextest, once");
    let installed = run_command(&mut cargo(&["install", "--locked", "cargo-nextest"]));
    if let Err(failure) = &installed {
        println!("    {failure}\n    going on with `cargo test`; the sabotages need nextest and will fail");
    }
    Ok(installed.is_ok())
}

/// What users get who ask for none of the features, or for one that is no store.
fn bare_packages() -> Result<(), Failure> {
    let of_semel = ["", "seal", "http", "axum", "lambda", "jmespath"].map(|it| ("semel", it));
    let of_testkit = ["", "lambda"].map(|it| ("semel-testkit", it));
    let of_runtime = [("semel-events", ""), ("semel-events", "jmespath"), ("semel-runtime", "")];
    let of_server = ["", "dynamodb"].map(|it| ("semel-server", it));
    of_semel.iter().chain(&of_testkit).chain(&of_runtime).chain(&of_server).try_for_each(
        |(package, features)| {
            let bare = ["-p", package, "--no-default-features", "--features", features];
            run_command(cargo(&["clippy"]).args(bare).args(["--", "-D", "warnings"]))
        },
    )
}

fn unit_tests(has_nextest: bool) -> Result<(), Failure> {
    let all =
        ["--workspace", "--features", "semel/axum,semel/jmespath,semel/seal,semel/sqlite", "--no-fail-fast"];
    if has_nextest {
        // What misuse is told names types of all crates in the tree, so it is compiled with the fewest. The tests of the
        // stores want their servers beside them, and are a step of their own.
        let elsewhere = format!(
            "not (binary_id(semel::stores) | test(/^compile_fail::/) | {})",
            stores::beside_servers()
        );
        run_command(cargo(&["nextest", "run"]).args(all).args(["-E", &elsewhere]))?;
        let misuse = ["-p", "semel", "--test", "it", "-E", "test(/^compile_fail::/)"];
        return run_command(cargo(&["nextest", "run"]).args(misuse));
    }
    run_command(cargo(&["test", "--all-targets"]).args(all))
}

/// Runs every file of every crate's `examples`.
fn examples() -> Result<(), Failure> {
    for (package, example) in every_example()? {
        println!("    {package}: {example}");
        let mut command = cargo(&["run", "--quiet", "--package", &package, "--example", &example]);
        // SQLite is what a complete program can use without a server.
        if package == "semel" {
            command.args(["--features", "axum,lambda,sqlite"]);
        }
        run_command(&mut command)?;
    }
    Ok(())
}

fn every_example() -> Result<Vec<(String, String)>, Failure> {
    let unreadable = |error| Failure::usage(format!("cannot list the examples: {error}"));
    let mut found = Vec::new();
    for package in std::fs::read_dir(root().join("crates")).map_err(unreadable)? {
        let package = package.map_err(unreadable)?;
        // Most crates have none.
        let Ok(examples) = std::fs::read_dir(package.path().join("examples")) else { continue };
        for example in examples {
            let path = example.map_err(unreadable)?.path();
            let Some(name) = path.file_stem().and_then(|it| it.to_str()) else { continue };
            if path.extension().is_some_and(|it| it == "rs") {
                found.push((package.file_name().to_string_lossy().into_owned(), name.to_owned()));
            }
        }
    }
    found.sort();
    Ok(found)
}
