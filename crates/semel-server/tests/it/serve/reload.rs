//! Reading the file again.

use super::support::{Server, orders, read, told};
use crate::support::{Proxy, Upstream};
use std::process::Command;

fn write(server: &Server, file: &str) {
    std::fs::write(server.directory.path().join("semel.toml"), file).unwrap();
    server.program.signal("HUP");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_takes_the_place_of_the_old_one() {
    let (first, second) = (Upstream::echo().await, Upstream::echo().await);
    let server = Server::before(&first);
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    first.called(1).await;
    let source = "[[source]]\nname = \"a\"\nauth = \"bearer\"\nsecret = \"correct horse\"\n";
    write(&server, &orders(&second, source));
    server.program.event("the file was read again");
    assert_eq!(server.event("evt-1", "{}").await.status, 200, "what was accepted stays accepted");
    assert_eq!(server.event("evt-2", "{}").await.status, 202);
    second.called(1).await;
    assert_eq!((first.calls(), second.calls()), (1, 1));
    assert_eq!(told(&server.json("/sources/a", &[], "{}").await), (401, "unauthorized".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_file_changes_nothing_and_the_log_says_why() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    for (n, wrong) in [
        "[[function]]\nname = \"orders\"\n",
        "[[function",
        "[[source]]\nname = \"a\"\nauth = \"bearer\"\nsecret = \"env:SEMEL_NOT_THERE\"\n",
    ]
    .iter()
    .enumerate()
    {
        write(&server, wrong);
        let told = &server.program.events("the file was read again, and nothing changed", n + 1)[n];
        let error = told["error"].as_str().unwrap();
        assert!(error.contains("semel.toml:") || error.contains("SEMEL_NOT_THERE"), "{error}");
        let got = server.event(&format!("evt-{n}"), "{}").await;
        assert_eq!(got.status, 202, "{got:?}");
    }
    function.called(3).await;
}

/// A server that the whole network can reach.
fn exposed(file: &str) -> Server {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("semel.toml"), file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["serve", "--config", "semel.toml", "--listen", "0.0.0.0:0", "--log", "json"]);
    command.args(["--store", "memory:"]).current_dir(directory.path());
    let program = Proxy::spawn(&mut command);
    Server::of(directory, program)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_does_not_open_what_the_network_may_not_use() {
    let function = Upstream::echo().await;
    let token = "[[token]]\nname = \"ann\"\nrole = \"admin\"\nsecret = \"correct horse battery\"\n";
    let events = "[events]\nauth = \"bearer\"\nsecret = \"staple of the horse\"\n";
    let near = "[guard]\nallow = [\"127.0.0.1\"]\n";
    let file = orders(&function, &format!("{near}{events}{token}"));
    let server = exposed(&file);
    for (n, (wrong, what)) in
        [(format!("{near}{token}"), "/events"), (format!("{near}{events}"), "operate")].iter().enumerate()
    {
        write(&server, &orders(&function, wrong));
        let told = &server.program.events("the file was read again, and nothing changed", n + 1)[n];
        assert!(told["error"].as_str().unwrap().contains(what), "{told}");
    }
    assert_eq!(told(&server.event("evt-1", "{}").await), (401, "unauthorized".to_owned()));
    write(&server, &file);
    server.program.event("the file was read again");
}

/// Semantics 1: the operator learns at the start what a late duplicate would do.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_too_early_is_told_at_the_start_and_at_a_reload() {
    const TOLD: &str = "the file asks for what it cannot have";
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, "retention = \"1h\"\n"));
    let first = &server.program.events(TOLD, 1)[0]["warning"];
    let first = first.as_str().unwrap().to_owned();
    assert!(first.contains("remembers an event for 1h") && first.contains("again for 1d"), "{first}");
    write(&server, &orders(&function, "retention = \"2h\"\n"));
    let second = &server.program.events(TOLD, 2)[1]["warning"];
    assert!(second.as_str().unwrap().contains("for 2h"), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_restart_is_told() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    write(&server, &orders(&function, "[server.limits]\nbody_bytes_max = \"2MiB\"\n"));
    let told = server.program.event("changed in the file, and needs a restart");
    assert_eq!(told["what"], "limits");
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_function_that_is_gone_waits_until_it_is_back() {
    let function = Upstream::start(async |_| crate::support::answer(503, "")).await;
    let server = Server::with(&orders(&function, "retry = \"gen2\"\nbackoff = [\"1s\"]\n"));
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    function.called(1).await;
    write(&server, "");
    server.program.event("the file was read again");
    assert_eq!(told(&server.event("evt-1", "{}").await), (422, "no-function".to_owned()));
    let healed = Upstream::echo().await;
    write(&server, &orders(&healed, "retry = \"gen2\"\nbackoff = [\"1s\"]\n"));
    server.program.events("the file was read again", 2);
    healed.called(1).await;
    assert_eq!(read(&server.event("evt-1", "{}").await)["duplicate"], true);
}

/// Every change is audited, by whichever way it comes; who sent the signal, nobody knows.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_file_changed_is_in_the_audit_log_by_name_and_no_secret_is() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let more = "concurrency = 3\n[[source]]\nname = \"a\"\nauth = \"bearer\"\nsecret = \"correct horse\"\n";
    write(&server, &orders(&function, more));
    server.program.event("the file was read again");
    let audited = async {
        loop {
            let entries = read(&server.get("/v1/audit").await)["entries"].as_array().unwrap().clone();
            if entries.len() == 2 {
                return entries;
            }
            // Another process's state can only be asked for again; the answer is what is waited for.
        }
    };
    let entries = crate::support::soon("the audit log", audited).await;
    let mut told: Vec<_> = entries
        .iter()
        .map(|it| {
            let text = |name: &str| it[name].as_str().unwrap().to_owned();
            format!("{} {} {}: {}", text("who"), text("what"), text("subject"), text("detail"))
        })
        .collect();
    told.sort();
    let address = function.address;
    assert_eq!(
        told,
        [
            "$signal reload /sources/a: source added by the file".to_owned(),
            format!("$signal reload orders: function changed by the file, http://{address}: concurrency"),
        ]
    );
}
