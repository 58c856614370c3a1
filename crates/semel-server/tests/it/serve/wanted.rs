//! A value that is none, of every kind that functions, sources, tokens and stores have: what is wanted instead.

use crate::support::semel;
use insta::assert_snapshot;

/// What `semel check` says of each file.
fn check(files: &[&str]) -> String {
    let said = |text: &&str| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("semel.toml"), text).unwrap();
        let ended = semel(directory.path(), &["check"]);
        format!("exit code {}\n{}{}", ended.code.unwrap(), ended.stdout, ended.stderr)
    };
    files.iter().map(said).collect::<Vec<_>>().join("\n")
}

#[test]
fn filters_that_take_nothing_or_look_at_nothing_are_told() {
    let deep = format!("{}{{ type = \"a\" }}{}", "{ not = ".repeat(17), " }".repeat(17));
    assert_snapshot!(check(&[&format!(
        r#"
[[function]]
name = "empty"
url = "https://a.example.com/"
filter = {{}}

[[function]]
name = "none"
url = "https://a.example.com/"
filter = {{ type = [], any = [], all = [{{}}], not = {{}} }}

[[function]]
name = "data"
url = "https://a.example.com/"
filter = {{ data = "1", "Type" = "a", exact = {{ "a-b" = "c" }}, prefix = "order" }}

[[function]]
name = "deep"
url = "https://a.example.com/"
filter = {deep}
"#
    )]));
}

#[test]
fn functions_without_a_name_and_delays_that_are_none_are_told() {
    let delays = vec!["\"1s\""; 101].join(", ");
    assert_snapshot!(check(&[&format!(
        r#"
[[function]]
url = "https://a.example.com/"

[[function]]
name = 5
url = "https://a.example.com/"
retry = "gen2"
backoff = "doubling"

[[function]]
name = "late"
url = "https://a.example.com/"
retry = "gen2"
backoff = ["1s", "500d"]

[[function]]
name = "never"
url = "https://a.example.com/"
retry = "gen2"
backoff = []

[[function]]
name = "often"
url = "https://a.example.com/"
retry = "gen2"
backoff = [{delays}]

[[function]]
name = "signed"
url = "https://a.example.com/"
secret = "env:ONE"
secrets = ["env:TWO"]
"#
    )]));
}

#[test]
fn senders_that_nobody_could_be_are_told() {
    assert_snapshot!(check(&[r#"
[[source]]
name = "user"
auth = "basic"
secret = "env:SECRET"

[[source]]
name = "key"
auth = "api-key"
header = "x key"
secret = "env:SECRET"

[[source]]
name = "topics"
auth = "sns"
topics = []

[[source]]
name = "no-topics"
auth = "sns"

[[source]]
name = "keys"
auth = "oidc"
audience = "a"
issuer = "https://shop.example.com"
jwks = "http://shop.example.com/keys"

[[source]]
name = "nobody"
auth = "none"
functions = []

[[source]]
name = "everybody"
auth = "none"
functions = 7
"#]));
}

#[test]
fn tokens_and_hosts_that_are_none_are_told() {
    assert_snapshot!(check(&[
        r#"
[server]
hosts = ["a host", ""]

[[token]]
name = "ann"
role = "root"
secret = "short"

[[token]]
name = "bob"
role = "viewer"

[[token]]
name = "cleo"
role = "viewer"
secret = ["env:ONE", "env:TWO"]
"#,
        "[proxy]\nupstream = \"http://127.0.0.1:9000\"\nseal_keys = \"\"\n",
    ]));
}

#[test]
fn stores_that_are_none_are_told() {
    let stores = [
        "",
        "mysql://db/shop",
        "postgres://db/shop?connections_max=0",
        "postgres://db/shop?create=perhaps",
        "redis://cache?prefx=a",
        "nats://bus?colour=red",
        "nats://bus?replicas=6",
        "dynamodb://",
        "dynamodb://table/rest",
        "firestore://",
    ];
    let files = stores.map(|it| format!("[proxy]\nupstream = \"http://127.0.0.1:9000\"\nstore = \"{it}\"\n"));
    assert_snapshot!(check(&files.each_ref().map(String::as_str)));
}
