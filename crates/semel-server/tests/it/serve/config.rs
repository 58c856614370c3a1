//! What a person sees who has written functions and sources.

use crate::support::semel;
use insta::assert_snapshot;

/// What a command says of a file.
fn said(arguments: &[&str], text: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("semel.toml"), text).unwrap();
    let ended = semel(directory.path(), arguments);
    format!("exit code {}\n{}{}", ended.code.unwrap(), ended.stdout, ended.stderr)
}

fn check(text: &str) -> String {
    said(&["check"], text)
}

const EVERYTHING: &str = r#"
[server]
listen = "[::1]:8787"
admin_listen = "127.0.0.1:8788"
store = "postgres://app@db/shop"
trusted_proxies = ["10.0.0.0/8"]
proxy = "environment"
problem_base = "https://api.example.com/problems/"
log = "json"

[server.timeouts]
first_byte = "5s"
head = "10s"
idle = "75s"
write = "1m"
body_grace = "5s"
shutdown = "30s"

[server.limits]
connections_max = 10_000
connections_per_ip_max = 1024
head_bytes_max = "64KiB"
headers_max = 100
uri_bytes_max = "8KiB"
streams_max = 128
body_bytes_max = "8MiB"
body_rate_min = "1KiB"
buffer_bytes_max = "128MiB"
memory_bytes_max = "128MiB"
disk_bytes_max = "10GiB"
in_flight_max = 2_048

[guard]
allow = ["10.1.0.0/16", "orders.internal", "192.0.2.7"]
loopback = false

[events]
auth = "api-key"
header = "x-api-key"
secret = "env:EVENTS_KEY"
mode = "async"
functions = ["orders", "audit"]
redelivery = "1d"

[[function]]
name = "orders"
url = "http://orders.internal/created"
filter = { type = ["order.created", "order.paid"], not = { prefix = { subject = "test-" } } }
key = ["subject", "/data/version"]
order = "subject"
retry = "gen2"
window = "24h"
backoff = { min = "10s", max = "10m" }
attempts_max = 20
event_age_max = "3d"
timeout = "30s"
retention = "7d"
answers = "knative"
concurrency = 64
rate = "100/s"
on_lost = "report"
http2 = true
dead_letter = "function:audit"
secrets = ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "file:/run/secrets/orders"]
strict = true
content = "structured"

[[function]]
name = "audit"
url = "https://audit.example.com/"
retry = "standard-webhooks"
backoff = ["5s", "5m", "2h"]
dead_letter = "https://dead.example.com/letters"

[[source]]
name = "github"
format = "json"
auth = "github"
secret = "env:GITHUB_SECRET"
id = "header:x-github-delivery"
type = "header:x-github-event"
source = "literal:github"
subject = "/repository/full_name"
time = "/created"
mode = "sync"
functions = "audit"

[[source]]
name = "topic"
format = "pubsub"
auth = "oidc"
audience = "https://semel.example.com/sources/topic"
email = "push@project.iam.gserviceaccount.com"
topic = "projects/shop/topics/orders"
origins = ["eventgrid.azure.net"]
origin_rate_max = 600
issuer = "https://accounts.google.com"
jwks = "https://www.googleapis.com/oauth2/v3/certs"

[[source]]
name = "alarms"
format = "sns"
auth = "sns"
topics = ["arn:aws:sns:eu-central-1:123456789012:alarms"]
allow_signature_v1 = true

[[source]]
name = "legacy"
auth = "basic"
user = "ann"
secret = "correct horse"
"#;

#[test]
fn a_file_with_everything_in_it_is_right() {
    assert_eq!(check(EVERYTHING), "exit code 0\n`semel.toml` is right: 2 functions, 4 sources\n");
}

#[test]
fn the_file_in_the_manual_is_right_and_names_every_key() {
    let manual = include_str!("../../../README.md");
    let start = manual.find("```toml\n[server]").unwrap() + "```toml\n".len();
    let file = manual[start..].split_once("```").unwrap().0;
    assert_eq!(check(file), "exit code 0\n`semel.toml` is right: 1 function, 5 sources\n");
    for line in EVERYTHING.lines().filter(|it| it.contains('=')) {
        let key = line.split_once(" =").unwrap().0;
        assert!(file.contains(&format!("\n{key} =")), "the manual does not know `{key}`");
    }
}

#[test]
fn every_mistake_of_a_function_is_told_at_once_with_its_place() {
    assert_snapshot!(check(
        r#"
[server]
listen = "localhost"
admin-listen = "127.0.0.1:1"

[server.limits]
body_bytes_max = "8MB"

[guard]
allow = ["10.0.0.0/99", "a b"]

[[function]]
name = "$audit"
url = "http://127.0.0.1:3000/orders"
retry = "always"
timeout = "2h"
concurrency = 0
rate = "fast"
answers = "teapot"
content = "xml"

[[function]]
name = "orders"
url = "https://ann:s3cret@orders.example.com/"
filter = { typ = "order", prefix = { type = 3 }, any = [] }
window = "1h"
backoff = { min = "5m", max = "1m" }
dead_letter = "function:orders"
secret = "short"

[[function]]
name = "orders"
dead_letter = "function:oders"
retrie = "gen2"
"#
    ));
}

#[test]
fn every_mistake_of_a_source_is_told_at_once_with_its_place() {
    assert_snapshot!(check(
        r#"
[events]
auth = "password"

[[source]]
name = "a/b"
format = "kafka"
auth = "github"
functions = ["orders"]

[[source]]
name = "plain"
format = "json"

[[source]]
name = "sns"
auth = "sns"
topics = ["alarms"]
mode = "later"

[[source]]
name = "sns"
auth = "oidc"
jwks = "http://keys.example.com"
user = "ann"

[[sauce]]
"#
    ));
}

/// Each of these would not start, or would refuse every event.
#[test]
fn what_the_server_would_refuse_is_told_with_its_place() {
    let function = |name: &str, more: &str| {
        format!("[[function]]\nname = \"{name}\"\nurl = \"https://a.example.com/\"\n{more}\n")
    };
    let round = [("a", "b"), ("b", "c"), ("c", "b")]
        .map(|(name, to)| function(name, &format!("dead_letter = \"function:{to}\"")))
        .concat();
    let token = "[[token]]\nname = \"ann\"\nrole = \"admin\"\nsecret = \"0123456789abcdef\"\n";
    let open = "[server]\nlisten = \"0.0.0.0:8787\"\n";
    let sync = "mode = \"sync\"\nauth = \"none\"\n";
    let waiting = function("a", "") + &function("in-order", "order = \"subject\"");
    let files = [
        round,
        open.to_owned(),
        format!("{open}{token}"),
        format!("{open}admin_listen = \"10.0.0.1:8788\"\n[events]\nauth = \"none\"\n"),
        format!("{open}[events]\nauth = \"none\"\n{token}"),
        format!("{waiting}[events]\n{sync}[[source]]\nname = \"all\"\n{sync}"),
        format!("{waiting}[[source]]\nname = \"some\"\nfunctions = [\"a\"]\n{sync}"),
    ];
    assert_snapshot!(files.map(|it| check(&it)).join("\n"));
    let typed = said(&["check", "--dev"], &format!("{open}{token}"));
    assert!(typed.starts_with("exit code 0\n"), "{typed}");
}

/// Each of these would stop the server at its start.
#[test]
fn a_secret_that_is_none_of_its_kind_is_told_with_its_place_and_not_shown() {
    let function = "[[function]]\nname = \"a\"\nurl = \"https://a.example.com/\"\n";
    let said = check(&format!(
        "{function}secrets = [\n  \"env:KEY\",\n  \"s3cret-horse\",\n  \"whsec_c2hvcnQ=\",\n]\n\
         [[source]]\nname = \"it\"\nauth = \"standard-webhooks\"\nsecret = \"whsec_s3cret-horse\"\n\
         [[source]]\nname = \"other\"\nauth = \"stripe\"\nsecret = \"whsec_s3cret-horse\"\n"
    ));
    assert!(!said.contains("horse") && !said.contains("c2hvcnQ"), "{said}");
    assert_snapshot!(said);
}

#[test]
fn a_limit_of_attempts_can_be_taken_off() {
    let plan = |limit: &str| {
        let url =
            "[[function]]\nname = \"a\"\nurl = \"https://a.example.com/\"\nretry = \"standard-webhooks\"\n";
        said(&["plan"], &format!("{url}{limit}"))
    };
    assert!(plan("").contains("at most 10 attempts"), "{}", plan(""));
    let without = plan("attempts_max = \"none\"\n");
    assert!(without.starts_with("exit code 0\n") && !without.contains("at most 10"), "{without}");
    let wrong = ["attempts_max = 4\n", "attempts_max = \"off\"\n", "attempts_max = true\n"];
    assert_snapshot!(wrong.map(plan).join("\n"));
}

/// Not wrong, and most likely not meant.
#[test]
fn who_could_send_besides_the_sender_is_warned_of() {
    let source = |name: &str, more: &str| format!("[[source]]\nname = \"{name}\"\n{more}\n");
    let sources = [
        source("anybody", "auth = \"oidc\"\naudience = \"https://semel.example.com\""),
        source("somebody", "auth = \"oidc\"\naudience = \"a\"\nemail = \"push@example.com\""),
        source(
            "shop",
            "auth = \"oidc\"\naudience = \"a\"\nissuer = \"https://shop.example.com\"\njwks = \"https://shop.example.com/keys\"",
        ),
        source("binary", "format = \"cloudevents\"\nauth = \"github\"\nsecret = \"env:SECRET\""),
        source(
            "header",
            "auth = \"stripe\"\nsecret = \"env:SECRET\"\nid = \"header:x-id\"\ntype = \"/type\"",
        ),
    ];
    let file = sources.concat();
    assert_snapshot!([check(&file), said(&["check", "--json"], &file)].join("\n"));
    assert_snapshot!(check(&source(
        "it",
        "auth = \"sns\"\nformat = \"json\"\ntopics = [\"arn:aws:sns:eu-central-1:123456789012:alarms\"]\nid = \"/MessageId\"\ntype = \"/Type\"\norigin_rate_max = 0"
    )));
}

#[test]
fn more_calls_than_a_node_holds_are_warned_of() {
    let function = |more: &str| {
        format!("[[function]]\nname = \"a\"\nurl = \"https://a.example.com/\"\nconcurrency = 2000\n{more}")
    };
    let files = [function(""), function("[server.limits]\nin_flight_max = 2000\n")];
    assert_snapshot!(files.map(|it| check(&it)).join("\n"));
}

#[test]
fn a_jmespath_is_checked_and_what_is_wrong_with_it_is_told_with_its_place() {
    let file = |key: &str| {
        check(&format!("[[function]]\nname = \"a\"\nurl = \"https://a.example.com\"\nkey = {key}\n"))
    };
    let right = file(r#"["subject", "jmespath:data.items[?price > `10`].id | [0]"]"#);
    assert_eq!(right, "exit code 0\n`semel.toml` is right: 1 function\n");
    let wrong = [r#""jmespath:data.items[?""#, r#""jmespath:lenght(data)""#, r#"["subject", "jmespath:"]"#];
    assert_snapshot!(wrong.map(file).join("\n"));
}

#[test]
fn a_secret_is_not_shown_by_a_mistake() {
    let said = check(
        "[[function]]\nname = \"a\"\nurl = \"https://a.example.com\"\nsecrets = [\"s3cret\", 5]\nsecret = \"al5o\"\n",
    );
    assert!(said.starts_with("exit code 1\n") && said.contains("semel.toml:4:"), "{said}");
    assert!(!said.contains("s3cret") && !said.contains("al5o"), "{said}");
}

#[test]
fn this_machine_may_be_called_in_development_only() {
    let file = "[[function]]\nname = \"a\"\nurl = \"http://localhost:3000/\"\n";
    assert_snapshot!([said(&["check"], file), said(&["check", "--dev"], file)].join("\n"));
    let listed = format!("{file}[guard]\nloopback = true\n");
    assert_eq!(check(&listed), "exit code 0\n`semel.toml` is right: 1 function\n");
}

#[test]
fn a_plan_shows_when_attempts_would_be() {
    assert_snapshot!(said(
        &["plan"],
        r#"
[[function]]
name = "off"
url = "https://a.example.com/"

[[function]]
name = "gen2"
url = "https://a.example.com/"
retry = "gen2"

[[function]]
name = "webhooks"
url = "https://a.example.com/"
retry = "standard-webhooks"
dead_letter = "function:off"

[[function]]
name = "few"
url = "https://a.example.com/"
retry = "immediate"
attempts_max = 5
timeout = "5s"
event_age_max = "2h"
dead_letter = "https://dead.example.com/"

[[function]]
name = "hasty"
url = "https://a.example.com/"
retry = "immediate"
dead_letter = "none"
"#
    ));
}

#[test]
fn a_plan_warns_of_what_is_forgotten_too_early() {
    assert_snapshot!(said(
        &["plan", "semel.toml"],
        r#"
[[function]]
name = "orders"
url = "https://a.example.com/"
retry = "gen1"

[[function]]
name = "audit"
url = "https://a.example.com/"
retention = "12h"

[[source]]
name = "topic"
format = "pubsub"
auth = "none"
functions = ["orders"]
"#
    ));
    assert_snapshot!([said(&["plan"], ""), said(&["plan", "no.toml"], "")].join("\n"));
}

#[test]
fn programs_read_what_is_checked_and_planned() {
    let right = "[[function]]\nname = \"few\"\nurl = \"https://a.example.com/\"\nretry = \"immediate\"\nattempts_max = 5\n\
                 timeout = \"5s\"\n";
    let wrong = "[[function]]\nname = \"few\"\nurl = \"https://a.example.com/\"\nretry = \"sometimes\"\n";
    let all = [
        said(&["check", "--json"], right),
        said(&["check", "--json"], wrong),
        said(&["plan", "--json"], right),
    ];
    assert_snapshot!(all.join("\n"));
}
