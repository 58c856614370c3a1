//! What a person is told where something is wrong that seldom is: one snapshot for each kind.

use crate::{
    api::support::Server,
    support::{Asked, Gate, Upstream, answer, semel},
};
use http::Method;
use insta::assert_snapshot;
use std::{fs, path::Path};

fn said_in(directory: &Path, arguments: &[&str]) -> String {
    let ended = semel(directory, arguments);
    format!("exit code {}\n{}{}", ended.code.unwrap(), ended.stdout, ended.stderr)
}

/// The same, where the environment says this.
fn said_where(directory: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_semel"))
        .args(arguments)
        .current_dir(directory)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    format!("exit code {}\n{}{}", output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn said(arguments: &[&str]) -> String {
    said_in(tempfile::tempdir().unwrap().path(), arguments)
}

#[test]
fn values_that_are_no_values_are_told_with_what_is_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let file = r#"
[proxy]
upstream = "http://127.0.0.1:9000/?a=b"
via = "two words"
problem_base = "https://api.example.com/problems"

[[route]]
path = "/a?b"

[[route]]
path = "/a/./b"

[[route]]
path = "/a/x{id}"

[events]
auth = "basic"
secret = "env:SECRET"
user = "an:n"

[[function]]
name = "orders"
url = "https://orders.example.com/"
strict = 1
dead_letter = "audit"
filter = { type = "" }

[[source]]
name = "topic"
format = "pubsub"
topic = "orders"
origins = ["https://a.example"]
"#;
    fs::write(directory.path().join("semel.toml"), file).unwrap();
    let mistakes = said_in(directory.path(), &["check"]);
    fs::write(directory.path().join("large.toml"), "#".repeat((1 << 20) + 1)).unwrap();
    let large = said_in(directory.path(), &["check", "--config", "large.toml"]);
    assert_snapshot!([mistakes, large].join("\n"));
}

#[test]
fn what_cannot_be_sent_or_asked_for_is_told_before_anybody_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("bytes.bin"), [0xff, 0xfe]).unwrap();
    fs::write(path.join("large.json"), "1".repeat(16 << 20)).unwrap();
    fs::create_dir_all(path.join("full/inside")).unwrap();
    let all = [
        said_in(path, &["send", "bytes.bin"]),
        said_in(path, &["send", "large.json"]),
        said_in(path, &["functions", "--token", "a\u{1}b"]),
        said_in(path, &["schema", "--table", ""]),
        said_in(path, &["bench", "--server", "https://semel.example"]),
        said_in(path, &["demo", "--keep", "full"]),
    ];
    assert_snapshot!(all.join("\n"));
}

#[test]
fn a_place_to_listen_that_is_not_of_this_machine_or_open_to_all_is_told() {
    let quiet = ["--log", "off", "--store", "memory:"];
    let serve = |more: &[&str]| said(&[&["serve"], &quiet[..], more].concat());
    let proxy = |more: &[&str]| said(&[&["proxy"], &quiet[..], more].concat());
    let all = [
        serve(&["--dev", "--listen", "192.0.2.1:8787", "--admin-listen", "127.0.0.1:0"]),
        serve(&["--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"]),
        proxy(&["--upstream", "http://127.0.0.1:1", "--listen", "192.0.2.1:8080"]),
    ];
    assert_snapshot!(all.join("\n"));
}

#[test]
fn a_secret_that_signs_nothing_is_told_at_the_start() {
    let told = with_a_bad_secret("[[function]]\nname = \"orders\"\nurl = \"https://orders.example.com/\"\n");
    assert_snapshot!(told);
}

/// What a server says at its start to a secret that is none, and does not repeat.
fn with_a_bad_secret(section: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret"), "not base64!").unwrap();
    let file = format!("{section}secret = \"file:secret\"\n");
    fs::write(directory.path().join("semel.toml"), file).unwrap();
    let serve =
        ["serve", "--config", "semel.toml", "--log", "off", "--store", "memory:", "--listen", "127.0.0.1:0"];
    let told = said_in(directory.path(), &serve);
    assert!(!told.contains("not base64!"), "{told}");
    told
}

/// What answers may be anything: none of it ends the program but with a message.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_strangely_is_told_and_never_a_panic() {
    let stranger = Upstream::start(async |asked: Asked| match asked.uri.path() {
        "/v1/functions" => answer(200, "{\"functions\": 7}"),
        "/v1/executions" => answer(503, r#"{"title": "The queue cannot be asked", "detail": "Look later."}"#),
        "/v1/jobs" => answer(500, r#"{"title": "", "detail": "Nobody knows."}"#),
        _ => answer(418, r#"{"title": "Überlastet", "detail": "Später."}"#),
    })
    .await;
    let url = format!("http://{}", stranger.address);
    let ask = |command: &str| said(&[command, "--server", &url]).replace(&url, "http://127.0.0.1:PORT");
    assert_snapshot!(["functions", "executions", "jobs", "audit"].map(ask).join("\n"));
}

/// An event that two functions take has two executions: whoever means one says which.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_is_named_and_what_still_runs_is_told() {
    let (function, gate) = Upstream::gated().await;
    let one =
        |name: &str| format!("[[function]]\nname = \"{name}\"\nurl = \"http://{}/\"\n", function.address);
    let server = Server::with(&[one("audit"), one("orders")].concat());
    let headers =
        [("ce-specversion", "1.0"), ("ce-id", "order-42"), ("ce-source", "/shop"), ("ce-type", "order")];
    let got = server.ask_with(&Method::POST, "/events", &headers, "{}").await;
    assert_eq!(got.status, 202, "{got:?}");
    function.called(2).await;
    let url = server.program.url("");
    let cancel = said(&["cancel", "order-42", "--server", &url]);
    // Their ids are of this event and these functions, and do not change.
    let drain = said(&["drain", "orders", "--within", "0", "--server", &url]);
    let unknown = said(&["why", "0123456789", "--server", &url]);
    assert_snapshot!([cancel, drain, unknown].join("\n"));
    Gate::open(&gate, 2);
}

/// Who resumes a function that somebody drains means that.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_resumed_while_it_is_drained_stays_so_and_whoever_drains_is_told() {
    let (function, gate) = Upstream::gated().await;
    let file = format!("[[function]]\nname = \"orders\"\nurl = \"http://{}/\"\n", function.address);
    let server = Server::with(&file);
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    function.called(1).await;
    let url = server.program.url("");
    let draining =
        tokio::task::spawn_blocking(move || said(&["drain", "orders", "--within", "300", "--server", &url]));
    server.when("/v1/functions/orders", |it| it["is_paused"] == true).await;
    server.post("/v1/functions/orders/resume", "").await;
    let told = draining.await.unwrap();
    assert_eq!(server.get("/v1/functions/orders").await["is_paused"], false, "it was paused again");
    let entries = server.get("/v1/audit?subject=orders").await["entries"].as_array().unwrap().clone();
    let whats: Vec<_> = entries.iter().map(|it| it["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["resume", "pause"]);
    assert_snapshot!(told);
    Gate::open(&gate, 1);
}

/// The API's cursors on a queue of every kind: on the disk, too, a wrong one is the caller's mistake.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_nobody_is_no_trouble_with_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory, "", &["--store", "./semel-data"]);
    for cursor in ["00", "ffff", &"01".repeat(18)] {
        let path = format!("/v1/executions?cursor={cursor}");
        let got = server.ask_with(&Method::GET, &path, &[], "").await;
        assert_eq!(got.status, 422, "{cursor}: {got:?}");
    }
}

/// A server that is told twice to stop does.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once_and_says_so() {
    let (function, _gate) = Upstream::gated().await;
    let file = format!("[[function]]\nname = \"orders\"\nurl = \"http://{}/\"\n", function.address);
    let mut server = Server::with(&file);
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    function.called(1).await;
    server.program.signal("TERM");
    server.program.event("stopping: finishing what is under way");
    server.program.signal("INT");
    assert_eq!(server.program.ended().code(), Some(130));
    assert!(server.program.log().ends_with("stopped by a second signal\n"), "{}", server.program.log());
}

#[test]
fn what_the_environment_or_a_file_of_keys_says_wrongly_is_told_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("semel.toml"), "[server]\nproxy = \"environment\"\n").unwrap();
    let serve = std::process::Command::new(env!("CARGO_BIN_EXE_semel"))
        .args([
            "serve",
            "--config",
            "semel.toml",
            "--log",
            "off",
            "--store",
            "memory:",
            "--listen",
            "127.0.0.1:0",
        ])
        .current_dir(path)
        .env("HTTPS_PROXY", "socks5://ann:s3cret@proxy:1080")
        .output()
        .unwrap();
    let serve =
        format!("exit code {}\n{}", serve.status.code().unwrap(), String::from_utf8(serve.stderr).unwrap());
    assert!(!serve.contains("s3cret"), "{serve}");
    fs::write(path.join("keys.toml"), "[proxy]\nupstream = \"http://127.0.0.1:1\"\nseal_keys = \"keys\"\n")
        .unwrap();
    let proxy =
        ["proxy", "--config", "keys.toml", "--log", "off", "--store", "memory:", "--listen", "127.0.0.1:0"];
    let missing = said_in(path, &proxy);
    let keys = |text: &str| {
        fs::write(path.join("keys"), text).unwrap();
        said_in(path, &proxy)
    };
    let all = [
        serve,
        missing,
        keys(""),
        keys("# of this year\nnothing-else"),
        keys("2026 c2hvcnQ="),
        keys("a/b n0Dm4d7oRk3cJrHmJc3cUX9Pi0Pqf9C8kBEdqZ5rrbI="),
    ];
    assert_snapshot!(all.join("\n"));
}

/// Certificates that are not there, and a directory for what passes that is not.
#[test]
fn what_the_machine_does_not_have_is_told_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir(path.join("none")).unwrap();
    let none = path.join("none").display().to_string();
    let bare = [("SSL_CERT_FILE", "missing.pem"), ("SSL_CERT_DIR", none.as_str())];
    let quiet = ["--log", "off", "--store", "memory:", "--listen", "127.0.0.1:0"];
    let all = [
        said_where(path, &bare, &["functions", "--server", "https://127.0.0.1:1"]),
        said_where(path, &bare, &[&["proxy", "--upstream", "https://127.0.0.1:1"], &quiet[..]].concat()),
        said_where(path, &[("TMPDIR", "/nowhere")], &["demo"]),
    ];
    assert_snapshot!(all.join("\n").replace(&none, "NONE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_of_a_server_that_takes_nothing_is_told() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let stranger = Upstream::start(async |_: Asked| answer(401, "who?")).await;
    let taken = stranger.address.to_string();
    let bench = |address: &str| {
        let url = format!("http://{address}");
        let told = said(&["bench", "--seconds", "1", "--connections", "1", "--server", &url]);
        told.replace(address, "127.0.0.1:PORT")
    };
    assert_snapshot!([bench(&closed), bench(&taken)].join("\n"));
}

#[test]
fn what_is_too_long_to_be_asked_for_is_told() {
    assert_snapshot!(said(&["why", &"x".repeat(70_000)]));
}

#[test]
fn a_source_whose_secret_signs_nothing_is_told_at_the_start() {
    let told = with_a_bad_secret("[[source]]\nname = \"hooks\"\nauth = \"standard-webhooks\"\n");
    assert_snapshot!(told);
}
