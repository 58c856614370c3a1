//! What a person sees who has written a configuration.

use super::support::semel;
use insta::assert_snapshot;

/// What `semel check` says of a file.
fn check(text: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("semel.toml"), text).unwrap();
    let ended = semel(directory.path(), &["check"]);
    format!("exit code {}\n{}{}", ended.code.unwrap(), ended.stdout, ended.stderr)
}

const EVERYTHING: &str = r#"
[proxy]
upstream = "http://127.0.0.1:9000/api"
upstream_http2 = false
host = "upstream"
listen = "[::1]:8080"
admin_listen = "127.0.0.1:8081"
store = "postgres://app@db/shop?table=payments"
trusted_proxies = ["10.0.0.0/8", "fd00::/8", "127.0.0.1"]
via = "semel"
service = "payments"
problem_base = "https://api.example.com/problems/"
log = "json"

[proxy.timeouts]
first_byte = "5s"
head = "10s"
idle = "75s"
write = "1m"
body_grace = "5s"
connect = "5s"
response = "60s"
response_idle = "5m"
upstream_idle = "4s"
shutdown = "30s"

[proxy.limits]
connections_max = 10_000
connections_per_ip_max = 1024
head_bytes_max = "64KiB"
headers_max = 100
uri_bytes_max = "8KiB"
streams_max = 128
body_bytes_max = "1GiB"
body_rate_min = "1KiB"
buffer_bytes_max = "256MiB"

[defaults]
key = "required"
caller = "header:x-account"

[[route]]
path = "/payments/{id}/refunds"
methods = ["POST", "PUT"]
key = "optional"
caller = "authorization"
per_host = false
strict = true
wait = "500ms"
lease = "30s"
retention = "30d"
body_retention = "7d"
request_bytes_max = "256KiB"
response_bytes_max = "1MiB"
response_wait = "10s"
store_errors = true
replay_headers = ["content-type", "x-request-id"]
fingerprint_headers = ["content-type", "x-version"]
quota = { keys = 10_000, per = "1h" }
on_lost = "report"

[[route]]
path = "/webhooks/*"
key = "off"
"#;

#[test]
fn a_file_with_everything_in_it_is_right() {
    assert_eq!(check(EVERYTHING), "exit code 0\n`semel.toml` is right: 2 routes\n");
    assert_eq!(
        check(""),
        "exit code 0\n`semel.toml` is right: no routes, so the defaults hold for every path\n"
    );
}

#[test]
fn the_file_in_the_manual_is_right_and_names_every_key() {
    let manual = include_str!("../../README.md");
    let file = manual.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0;
    assert_eq!(check(file), "exit code 0\n`semel.toml` is right: 2 routes\n");
    for line in EVERYTHING.lines().filter(|it| it.contains('=')) {
        let key = line.split_once(" =").unwrap().0;
        assert!(file.contains(&format!("\n{key} =")), "the manual does not know `{key}`");
    }
}

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    assert_snapshot!(check(
        r#"
[proxy]
upstream = "127.0.0.1:9000"
listn = "127.0.0.1:8080"
admin_listen = 8081
store = "mysql://ann:s3cret@db/shop"
trusted_proxies = ["10.0.0.0/8", "lan"]
host = "keep"
log = true

[proxy.timeouts]
connect = 5
response = "5 s"
shutdown = "2y"
idle = "1ms"

[proxy.limits]
headers_max = 1000
head_bytes_max = "64KB"
colour = "red"

"#
    ));
}

#[test]
fn mistakes_of_routes_are_told_with_their_place() {
    assert_snapshot!(check(
        r#"
[defaults]
key = "always"
retention = "1h"
body_retention = "1d"

[[route]]
path = "payments"
metods = ["POST"]

[[route]]
methods = ["post", "POST"]
replay_headers = ["Set-Cookie", "set-cookie2", "Semel-Fence", "idempotency-replayed", "proxy-connection"]
caller = "header:Idempotency-Key"
quota = { key = 5 }

[[route]]
path = "/a/*"
quota = "none"

[[route]]
path = "/a/{id}"
methods = []

[[route]]
path = "/b"

[[route]]
path = "/b"

[[route]]
path = "/c/{id}"

[[route]]
path = "/c/{name}"

[rout]
"#
    ));
}

#[test]
fn whether_a_key_is_of_its_host_is_said_or_not() {
    let wrong = check("[[route]]\npath = \"/a\"\nper_host = \"yes\"\n");
    assert!(
        wrong.contains("semel.toml:3:12: `route.per_host` is `yes`: wanted `true` or `false`"),
        "{wrong}"
    );
}

#[test]
fn what_is_no_toml_is_told_with_its_place() {
    assert_snapshot!(
        [
            check("[proxy\nlisten = \"127.0.0.1:8080\"\n"),
            check("[proxy]\nlisten = 127.0.0.1\n"),
            check("[proxy]\nlisten = \"a\"\nlisten = \"b\"\n"),
            check("proxy = 3\nroute = { path = \"/\" }\n"),
            check("[[proxy]]\n"),
        ]
        .join("\n")
    );
}

#[test]
fn a_proxy_does_not_start_on_a_wrong_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("own.toml"), "[proxy]\nlisten = \"here\"\n").unwrap();
    let ended = semel(directory.path(), &["proxy", "--config", "own.toml"]);
    assert_snapshot!(format!("exit code {}\n{}{}", ended.code.unwrap(), ended.stdout, ended.stderr));
    let ended = semel(directory.path(), &["check", "--config", "other.toml"]);
    assert_snapshot!(format!("exit code {}\n{}{}", ended.code.unwrap(), ended.stdout, ended.stderr));
}

#[test]
fn what_routes_say_is_not_overruled_by_the_command_line() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("semel.toml"), EVERYTHING).unwrap();
    let ended = semel(directory.path(), &["proxy", "--config", "semel.toml", "--required"]);
    assert_snapshot!(format!("exit code {}\n{}", ended.code.unwrap(), ended.stderr));
}
