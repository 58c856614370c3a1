//! `semel demo` and `semel bench`, as their users have them.

use crate::support::semel;
use insta::assert_snapshot;
use std::fs;

/// The number of a line of the table.
fn number(stdout: &str, name: &str) -> u64 {
    let line = stdout.lines().find_map(|it| it.trim_start().strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no `{name}` in:\n{stdout}"));
    line.split_whitespace().next().unwrap().replace(',', "").parse().unwrap()
}

/// The table, without the numbers that the machine's speed decides.
fn redacted(stdout: &str) -> String {
    let varies = ["sent again", "calls of the function", "failed attempts", "after the effect"];
    let lines = stdout.lines().map(|line| {
        let Some(name) = varies.iter().find(|it| line.trim_start().starts_with(**it)) else {
            return line.to_owned();
        };
        let number = number(stdout, name);
        line.replacen(&format!("{number:>10}"), &format!("{:>10}", "[number]"), 1)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What happened, without when and how far it was, and without the server's port.
fn happened(stderr: &str) -> String {
    let line = |line: &str| {
        let line = line.split_once(" s  ").map_or(line, |(_, it)| it);
        let Some((before, rest)) = line.split_once("127.0.0.1:") else { return line.to_owned() };
        format!("{before}127.0.0.1:PORT{}", rest.trim_start_matches(|it: char| it.is_ascii_digit()))
    };
    let lines = stderr.lines().filter(|it| !it.contains("deliveries acknowledged"));
    lines.map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_event_of_the_demo_takes_effect_once_though_everything_fails() {
    let directory = tempfile::tempdir().unwrap();
    let typed = ["demo", "--events", "300", "--deliveries", "900", "--seed", "7", "--keep", "kept"];
    let ended = semel(directory.path(), &typed);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let of = |name| number(&ended.stdout, name);
    assert_eq!((of("effects"), of("expected effects")), (300, 300));
    // Three in twenty attempts fail: that none did is a demo that shows nothing.
    assert!(of("failed attempts") >= 20, "{}", ended.stdout);
    assert!(of("after the effect") >= 1, "{}", ended.stdout);
    assert!(of("calls of the function") >= 300 + of("failed attempts") / 2, "{}", ended.stdout);
    assert_snapshot!(happened(&ended.stderr), @r"
    900 deliveries of 300 events to http://127.0.0.1:PORT, seed 7
    the server crashed; it is opened again
    all deliveries are acknowledged; what ran at the crash waits for its leases

    What the server kept is in `kept`: `semel serve --store kept` opens it.
    ");
    assert!(!ended.stderr.contains('\u{1b}'), "there is no terminal: {}", ended.stderr);
    assert!(fs::read_dir(directory.path().join("kept")).unwrap().next().is_some());
    assert_snapshot!(redacted(&ended.stdout), @r"
    deliveries                    900
      distinct events             300
      duplicates                  600
    sent again               [number]  the server was not there, or did not answer
    calls of the function    [number]
      failed attempts        [number]  an error, or a crash
      after the effect       [number]  known by their idempotency key
    effects                       300
    expected effects              300

    Every event took effect once.
    ");
}

#[test]
fn a_demo_that_cannot_be_meant_is_not_begun() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("mine"), "").unwrap();
    let check = |arguments: &[&str], expected: &str| {
        let ended = semel(directory.path(), arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.starts_with(&format!("error: {expected}\n")), "{}", ended.stderr);
    };
    check(
        &["demo", "--events", "2", "--deliveries", "1"],
        "`--deliveries` is `1`: wanted at least `--events`, `2`",
    );
    check(&["demo", "--deliveries", "1000001"], "`--deliveries` is `1000001`: wanted 1 to 1000000");
    check(&["demo", "--events", "0"], "`--events` is `0`: wanted 1 to 1000000");
    check(&["demo", "--keep", "."], "`.` is not empty");
    check(&["bench", "--seconds", "61"], "`--seconds` is `61`: wanted 1 to 60");
    check(&["bench", "--connections", "1001"], "`--connections` is `1001`: wanted 1 to 1000");
    check(
        &["bench", "--server", "https://shop.example"],
        "`--server` is `https://shop.example`: wanted a URL such as `http://127.0.0.1:8787`",
    );
}

#[test]
fn a_bench_of_its_own_prints_a_figure_for_everything() {
    let directory = tempfile::tempdir().unwrap();
    let ended = semel(directory.path(), &["bench", "--seconds", "1", "--connections", "4"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    for name in ["single events", "the same events again", "half of that, acknowledged", "batches of 100"] {
        assert!(number(&ended.stdout, name) > 0, "{name}:\n{}", ended.stdout);
    }
    assert!(ended.stdout.contains("  function called"), "{}", ended.stdout);
}
