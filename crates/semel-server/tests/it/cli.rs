//! What a person sees who types something.

mod readme;
mod verbs;

use super::support::semel;
use insta::assert_snapshot;

/// What the program said, and how it ended.
fn said(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let ended = semel(directory.path(), arguments);
    format!("exit code {}\n--- stdout\n{}--- stderr\n{}", ended.code.unwrap(), ended.stdout, ended.stderr)
}

#[test]
fn help_names_the_commands() {
    assert_snapshot!(said(&["--help"]));
}

#[test]
fn help_of_the_proxy_has_examples() {
    assert_snapshot!(said(&["proxy", "--help"]));
}

#[test]
fn the_version_is_told() {
    let version = said(&["--version"]);
    assert_eq!(
        version,
        format!("exit code 0\n--- stdout\nsemel {}\n--- stderr\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn what_cannot_be_meant_is_told_with_a_remedy() {
    let upstream = ["proxy", "--upstream", "http://127.0.0.1:1"];
    let with = |more: &[&'static str]| said(&[&upstream[..], more].concat());
    let all = [
        said(&[]),
        said(&["prxy"]),
        said(&["proxy"]),
        said(&["proxy", "--upstrem", "http://a"]),
        said(&["proxy", "--upstream"]),
        said(&["proxy", "--upstream", "127.0.0.1:9000"]),
        said(&["proxy", "--upstream", "http://ann:s3cret@a"]),
        with(&["--listen", "localhost"]),
        with(&["--store", "mysql://ann:s3cret@db/x"]),
        with(&["--store", "redis://db?prefx=a"]),
        with(&["--caller", "cookie"]),
        with(&["--trusted-proxy", "10.0.0.0/99"]),
        with(&["--log", "xml"]),
        with(&["--config", "missing.toml"]),
    ]
    .join("\n\n");
    assert!(!all.contains("s3cret"), "{all}");
    assert_snapshot!(all);
}

#[test]
#[cfg(not(feature = "dynamodb"))]
fn a_store_that_is_not_built_in_says_how_to_get_it() {
    let upstream = ["proxy", "--upstream", "http://127.0.0.1:1", "--log", "off"];
    assert_snapshot!(said(&[&upstream[..], &["--store", "dynamodb://orders"]].concat()));
}

#[test]
fn what_is_not_there_ends_with_69() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let upstream = ["proxy", "--upstream", "http://127.0.0.1:1", "--log", "off", "--store", "memory:"];
    let in_use = said(&[&upstream[..], &["--listen", &address]].concat());
    // Nobody listens at a port that was just given back.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("postgres://ann:s3cret@{closed}/shop");
    let no_store = said(&["proxy", "--upstream", "http://127.0.0.1:1", "--log", "off", "--store", &url]);
    assert!(!no_store.contains("s3cret"), "{no_store}");
    let all = [in_use, no_store].join("\n\n");
    let all = all.replace(&address, "127.0.0.1:PORT").replace(&closed.to_string(), "127.0.0.1:PORT");
    assert_snapshot!(all);
}

#[test]
fn two_proxies_do_not_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let _first = super::support::Proxy::start(directory.path(), nowhere, "", &[]);
    let second = ["proxy", "--upstream", "http://127.0.0.1:1", "--log", "off", "--listen", "127.0.0.1:0"];
    let ended = semel(directory.path(), &second);
    assert_snapshot!(format!("exit code {}\n{}", ended.code.unwrap(), ended.stderr));
}
