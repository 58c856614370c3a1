//! What a person sees who talks to a running server.

use crate::{
    api::support::{Server, TOKENS, orders, picky},
    support::Upstream,
};
use insta::assert_snapshot;
use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// A server, and a function that takes some of its events.
struct World {
    server: Server,
    function: Upstream,
}

impl World {
    async fn new() -> Self {
        let function = picky().await;
        Self { server: Server::before(&function), function }
    }

    /// What the program says to this line, and how it ends.
    fn said(&self, arguments: &[&str]) -> String {
        let url = self.server.program.url("");
        let text = typed(self.server.directory.path(), &[arguments, &["--server", &url]].concat(), "", &[]);
        self.redacted(&text)
    }

    /// The same, without what is different every time.
    fn redacted(&self, text: &str) -> String {
        let text = text.replace(&self.server.program.address.to_string(), "127.0.0.1:PORT");
        let text = text.replace(concat!("version ", env!("CARGO_PKG_VERSION")), "version VERSION");
        redacted(&text.replace(&self.function.address.to_string(), "127.0.0.1:FUNCTION"))
    }

    /// Waits until an event stands like this.
    async fn stands(&self, id: &str, status: &str) {
        self.server.why_when(id, |it| it["execution"]["status"] == status).await;
    }
}

/// What the program says, and how it ends.
fn typed(directory: &Path, arguments: &[&str], input: &str, environment: &[(&str, &str)]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_semel"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("SEMEL_SERVER")
        .env_remove("SEMEL_TOKEN")
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    format!("exit code {}\n--- stdout\n{stdout}--- stderr\n{stderr}", output.status.code().unwrap())
}

/// Without moments and durations.
fn redacted(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = moment(rest);
        if taken > 0 {
            out.push_str("MOMENT");
            rest = &rest[taken..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    // How long an attempt took.
    let words: Vec<_> = out.split("after ").collect();
    let cut = |it: &&str| {
        it.split_once(" ms: ").filter(|(number, _)| number.parse::<u64>().is_ok()).map(|it| it.1.to_owned())
    };
    words[1..].iter().fold(words[0].to_owned(), |all, it| match cut(it) {
        Some(after) => format!("{all}after TIME: {after}"),
        None => format!("{all}after {it}"),
    })
}

/// How many bytes of a moment the text begins with.
fn moment(text: &str) -> usize {
    let is_like = |pattern: &str| {
        let bytes = text.as_bytes();
        bytes.len() >= pattern.len()
            && pattern.bytes().zip(bytes).all(|(wanted, found)| match wanted {
                b'0' => found.is_ascii_digit(),
                b'_' => matches!(found, b' ' | b'T'),
                other => other == *found,
            })
    };
    ["0000-00-00_00:00:00.000Z", "0000-00-00_00:00:00"].into_iter().find(|it| is_like(it)).map_or(0, str::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_sent_three_times_and_told_of() {
    let world = World::new().await;
    std::fs::write(world.server.directory.path().join("order.json"), r#"{"good": true}"#).unwrap();
    world.said(&["pause", "orders"]);
    let sent = world.said(&[
        "send",
        "order.json",
        "--type",
        "order.created",
        "--source",
        "/shop",
        "--id",
        "order-42",
        "--times",
        "3",
    ]);
    world.said(&["resume", "orders"]);
    world.stands("order-42", "COMPLETED").await;
    world.server.why_when("order-42", |it| it["execution"]["duplicates"] == 2).await;
    assert_eq!(world.function.calls(), 1);
    assert_snapshot!(sent + "\n" + &world.said(&["why", "order-42"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_seen_and_redriven() {
    let world = World::new().await;
    world.said(&[
        "send",
        "--data",
        r#"{"order": 17}"#,
        "--type",
        "order.created",
        "--source",
        "/shop",
        "--id",
        "order-17",
    ]);
    world.stands("order-17", "FAILED").await;
    let edited = r#"{"specversion": "1.0", "id": "order-17", "source": "/shop", "type": "order.created",
        "datacontenttype": "application/json", "data": {"good": true}}"#;
    std::fs::write(world.server.directory.path().join("edited.json"), edited).unwrap();
    let mut all = vec![
        world.said(&["why", "order-17"]),
        world.said(&["dead"]),
        world.said(&["dead", "--errors"]),
        world.said(&["redrive", "--function", "orders", "--dry-run"]),
        world.said(&["cancel", "order-17"]),
        world.said(&["doctor"]),
        world.said(&["redrive", "order-17", "--event", "edited.json"]),
    ];
    world.stands("order-17", "COMPLETED").await;
    all.push(world.said(&["why", "order-17"]));
    all.push(world.said(&["executions"]));
    assert_eq!(world.said(&["events"]), world.said(&["executions"]), "it is another word for it");
    all.push(world.said(&["dead"]));
    assert_snapshot!(all.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_dead_letters_are_redriven_at_once() {
    let world = World::new().await;
    for id in ["a", "b", "c"] {
        world.server.event(id, "{}").await;
    }
    world.server.when("/v1/ledger", |it| it["total"]["dead"] == 3).await;
    let redriven = world.said(&["redrive", "--function", "orders", "--reason", "fatal"]);
    world.function.called(6).await;
    let jobs = world.said(&["jobs"]);
    let over = world.said(&["abort", "1"]);
    assert_snapshot!([redriven, jobs, over].join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_parked_unparked_and_cancelled() {
    let world = World::new().await;
    world.said(&["pause", "orders"]);
    world.server.event("a", "{}").await;
    let all = [
        world.said(&["functions"]),
        world.said(&["doctor"]),
        world.said(&["park", "a"]),
        world.said(&["park", "a"]),
        world.said(&["executions", "--status", "pending"]),
        world.said(&["unpark", "a"]),
        world.said(&["resolve", "a", "happened"]),
        world.said(&["cancel", "a"]),
        world.said(&["resume", "orders"]),
        world.said(&["drain", "orders"]),
        world.said(&["purge"]),
    ];
    assert_snapshot!(all.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_changed_what_is_listed() {
    let world = World::new().await;
    world.said(&["pause", "orders"]);
    assert_snapshot!(world.said(&["audit", "paused"]) + "\n" + &world.said(&["audit", "orders"]));
}

/// What was typed beside `--errors` counts, and so does what was typed beside everything else.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_of_what_was_asked_for() {
    let world = World::new().await;
    for (id, data) in [("a", "{}"), ("b", "{}"), ("c", r#"{"late": true}"#)] {
        world.server.event(id, data).await;
    }
    let is_so = |it: &serde_json::Value| it["errors"].as_array().unwrap().len() == 2;
    world.server.when("/v1/errors", is_so).await;
    let lines = |arguments: &[&str]| {
        let said = world.said(arguments);
        let (data, rest) = said.split_once("--- stdout\n").unwrap().1.split_once("--- stderr\n").unwrap();
        (data.lines().count().saturating_sub(1), rest.to_owned())
    };
    assert_eq!(lines(&["dead", "--errors"]), (2, String::new()));
    assert_eq!(
        lines(&["dead", "--errors", "--limit", "1"]),
        (1, "there are more: `--limit COUNT` shows them\n".to_owned())
    );
    assert_eq!(lines(&["dead", "--errors", "--function", "nobody"]), (0, "there are no errors\n".to_owned()));
    assert_eq!(lines(&["dead", "--errors", "--name", "c"]), (1, String::new()));
    assert_eq!(lines(&["dead", "--errors", "--before", "2020-01-01T00:00:00Z"]).0, 0);
    assert_eq!(lines(&["executions", "--name", "a"]), (1, String::new()));
    assert_eq!(lines(&["dead", "--name", "c"]).0, 0, "it waits");
    assert!(world.said(&["redrive", "--name", "a"]).contains("redrive: 1 done, 0 skipped"));
    let id = world.server.why_when("a", |_| true).await["execution"]["id"].as_str().unwrap().to_owned();
    let audited = world.said(&["audit", &id[..12]]);
    assert!(audited.contains("redrive") && audited.contains("job 1"), "{audited}");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_get_json() {
    let world = World::new().await;
    world.said(&["pause", "orders"]);
    let sent = world.said(&["send", "--data", "1", "--type", "t", "--id", "a", "--json"]);
    let why = world.said(&["why", "a", "--json"]);
    let functions = world.said(&["functions", "--json"]);
    assert_snapshot!([sent, why, functions].join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_told_with_its_exit_code() {
    let world = World::new().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (directory, nowhere) = (world.server.directory.path(), format!("http://{closed}"));
    let absent = typed(directory, &["functions"], "", &[("SEMEL_SERVER", &nowhere)]);
    let strange =
        typed(directory, &["functions", "--server", &format!("http://{}", world.function.address)], "", &[]);
    let all = [
        world.said(&["why", "order-43"]),
        world.said(&["redrive", "order-43"]),
        world.said(&["redrive"]),
        world.said(&["redrive", "--reason", "bored"]),
        world.said(&["redrive", "--all", "--rate", "fast"]),
        world.said(&["redrive", "--function", "nobody", "--dry-run"]),
        world.said(&["redrive", "a", "--all"]),
        world.said(&["cancel", "--error", "x"]),
        world.said(&["pause", "nobody"]),
        world.said(&["pause", "a/b"]),
        world.said(&["resume", "nobody"]),
        world.said(&["drain", "nobody"]),
        world.said(&["abort", "7"]),
        world.said(&["executions", "--status", "lost"]),
        world.said(&["send", "missing.json", "--type", "t"]),
        world.said(&["send", "--data", "1"]),
        world.said(&["send"]),
        world.said(&["resolve", "a", "maybe"]),
        typed(directory, &["functions", "--server", "ftp://x"], "", &[]),
        absent.replace(&closed.to_string(), "127.0.0.1:PORT"),
        world.redacted(&strange),
    ];
    assert_snapshot!(all.join("\n"));
}

/// The program shows a token to nobody but the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_says_who_asks() {
    let function = picky().await;
    let world = World { server: Server::with(&orders(&function, TOKENS)), function };
    let url = world.server.program.url("");
    let ask = |arguments: &[&str], token: &str| {
        let environment = [("SEMEL_SERVER", url.as_str()), ("SEMEL_TOKEN", token)];
        world.redacted(&typed(world.server.directory.path(), arguments, "", &environment))
    };
    let all = [
        ask(&["functions"], ""),
        ask(&["functions"], "wrong-0123456789"),
        ask(&["functions"], "viewer-0123456789"),
        ask(&["pause", "orders"], "viewer-0123456789"),
        ask(&["pause", "orders"], "operator-0123456789"),
        ask(&["audit"], "viewer-0123456789"),
    ]
    .join("\n");
    assert!(!all.contains("0123456789"), "{all}");
    assert_snapshot!(all);
}

/// Hostile 38: what senders and functions say does nothing to a terminal.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_do_not_reach_the_terminal() {
    let world = World::new().await;
    let event = serde_json::json!({"specversion": "1.0", "id": "a", "source": "/\u{202e}gpj", "type": "t\u{200b}u", "data": 1});
    std::fs::write(world.server.directory.path().join("event.json"), event.to_string()).unwrap();
    world.said(&["send", "event.json"]);
    world.stands("a", "FAILED").await;
    for arguments in [&["why", "a"][..], &["executions"], &["dead"], &["why", "\u{1b}[2J\u{202e}"]] {
        let said = world.said(arguments);
        let is_quiet = |it: char| {
            it == '\n' || !it.is_control() && !matches!(it, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        };
        assert!(said.chars().all(is_quiet), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_read() {
    let world = World::new().await;
    let url = world.server.program.url("");
    let arguments = ["send", "-", "--type", "t", "--id", "in", "--server", &url];
    let said = typed(world.server.directory.path(), &arguments, r#"{"good": true}"#, &[]);
    assert!(said.starts_with("exit code 0"), "{said}");
    world.stands("in", "COMPLETED").await;
}

/// The server gives 500 at once, and one page may have fewer.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_as_long_as_was_asked_for_and_goes_beyond_a_page() {
    let world = World::new().await;
    world.said(&["pause", "orders"]);
    let event = |id: u32| format!(r#"{{"specversion":"1.0","id":"e{id}","source":"/shop","type":"t"}}"#);
    let batch = format!("[{}]", (0..600).map(event).collect::<Vec<_>>().join(","));
    let batched = [("content-type", "application/cloudevents-batch+json")];
    let got = world.server.ask_with(&http::Method::POST, "/events", &batched, &batch).await;
    assert_eq!(got.status, 202, "{got:?}");
    for (limit, shown) in [("1", 1), ("550", 550), ("10000", 600)] {
        let said = world.said(&["executions", "--limit", limit]);
        assert_eq!(said.matches(" PENDING ").count(), shown, "{limit}");
        assert_eq!(said.contains("there are more"), shown < 600, "{limit}");
    }
    for wrong in ["0", "10001", "many"] {
        let said = world.said(&["executions", "--limit", wrong]);
        assert!(said.starts_with("exit code 2") && said.contains(&format!("cannot be `{wrong}`")), "{said}");
    }
}

#[test]
fn help_pages_say_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let list = typed(directory.path(), &["--help"], "", &[]);
    let (_, commands) = list.split_once("Commands:\n").unwrap();
    let commands = commands.split("\n\n").next().unwrap().lines();
    // These two have snapshots of their own.
    let pages: Vec<_> = commands
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| !["serve", "proxy"].contains(name))
        .collect();
    assert!(pages.len() > 20, "{list}");
    let page = |name: &&str| format!("==== {name}\n{}", typed(directory.path(), &[name, "--help"], "", &[]));
    assert_snapshot!(pages.iter().map(page).collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_is_printed_without_a_server_is_what_others_read() {
    let directory = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| typed(directory.path(), arguments, "", &[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&["completions", shell]);
        assert!(script.starts_with("exit code 0") && script.contains("redrive"), "{shell}: {script}");
    }
    let page = said(&["man"]);
    assert!(
        page.starts_with("exit code 0\n--- stdout\n")
            && page.contains(".TH semel 1")
            && page.contains("redrive"),
        "{page}"
    );
    let page = said(&["man", "redrive"]);
    assert!(page.contains(".TH semel-redrive 1") && page.contains("canary"), "{page}");
    assert!(said(&["man", "nothing"]).starts_with("exit code 2"));
    let sql = said(&["schema"]);
    assert!(sql.starts_with("exit code 0") && sql.to_uppercase().contains("CREATE TABLE"), "{sql}");
    assert_ne!(said(&["schema", "--proxy"]), sql);
    assert!(said(&["schema", "--table", "a; DROP"]).starts_with("exit code 2"));
}
