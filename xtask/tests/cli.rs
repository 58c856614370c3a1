//! What a person sees who calls it: exit code, and where the text goes.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("it was built beside this test")
}

#[track_caller]
fn check(arguments: &[&str], code: i32, stdout: &str, stderr: &str) {
    let output = xtask(arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    assert!(out.contains(stdout), "{out}");
    assert!(err.contains(stderr), "{err}");
}

#[test]
fn help_is_an_answer() {
    for help in ["help", "--help", "-h"] {
        check(&[help], 0, "Usage: cargo xtask <command>", "");
    }
}

#[test]
fn a_wrong_call_is_told_what_there_is() {
    check(&[], 2, "", "error: which command?");
    check(&["tset"], 2, "", "error: no such command: `tset`");
    check(&["test", "quickly"], 2, "", "Usage: cargo xtask <command>");
    check(&["bench"], 2, "", "error: no such command: `bench`");
}

#[test]
fn an_unknown_sabotage_is_told_the_known_ones() {
    check(&["sabotage", "no-such-bug"], 2, "", "error: no sabotage is called `no-such-bug`\nhint: one of ");
}
