//! Who may do what.

use super::support::{Server, TOKENS, orders, picky, told};
use crate::support::semel;
use http::Method;
use insta::assert_snapshot;

/// What each role may do, as people were promised: not read from the document.
const VERBS: &[(&str, &str, &str, &str)] = &[
    ("GET", "/v1/server", "", "viewer"),
    ("GET", "/v1/functions", "", "viewer"),
    ("GET", "/v1/functions/orders", "", "viewer"),
    ("GET", "/v1/executions", "", "viewer"),
    ("GET", "/v1/executions/00", "", "viewer"),
    ("GET", "/v1/why?q=x", "", "viewer"),
    ("GET", "/v1/jobs", "", "viewer"),
    ("GET", "/v1/jobs/99", "", "viewer"),
    ("GET", "/v1/errors", "", "viewer"),
    ("GET", "/v1/audit", "", "viewer"),
    ("GET", "/v1/ledger", "", "viewer"),
    ("GET", "/v1/openapi.json", "", "viewer"),
    ("POST", "/v1/functions/orders/pause", "", "operator"),
    ("POST", "/v1/functions/orders/resume", "", "operator"),
    ("POST", "/v1/functions/orders/drain", "", "operator"),
    ("POST", "/v1/executions/00/redrive", "", "operator"),
    ("POST", "/v1/executions/00/cancel", "", "operator"),
    ("POST", "/v1/executions/00/park", "", "operator"),
    ("POST", "/v1/executions/00/unpark", "", "operator"),
    ("POST", "/v1/executions/00/resolve", "{\"outcome\": \"did_not\"}", "operator"),
    ("POST", "/v1/bulk", "{\"action\": \"cancel\", \"filter\": {\"name\": \"x\"}}", "operator"),
    ("POST", "/v1/jobs/99/abort", "", "operator"),
    ("POST", "/v1/errors/0123456789abcdef/stop", "", "operator"),
    (
        "PUT",
        "/v1/functions/added",
        "{\"url\": \"http://127.0.0.1:1/\", \"filter\": {\"type\": \"x\"}}",
        "admin",
    ),
    ("DELETE", "/v1/functions/added", "", "admin"),
    ("POST", "/v1/purge", "", "admin"),
    ("POST", "/v1/past/replay", "", "admin"),
    ("POST", "/v1/past/skip", "", "admin"),
    ("GET", "/metrics", "", "viewer"),
];

/// Whether an address is one of those that stand at a path of the document.
fn is_at(path: &str, address: &str) -> bool {
    let address = address.split('?').next().unwrap().split('/');
    let (path, address): (Vec<_>, Vec<_>) = (path.split('/').collect(), address.collect());
    path.len() == address.len()
        && path.iter().zip(address).all(|(it, found)| it.starts_with('{') || *it == found)
}

/// What is added to the API is added here, by whoever thinks about who may do it.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_do_what_is_promised_of_everything_that_there_is() {
    let function = picky().await;
    let server = Server::before(&function);
    let document = server.get("/v1/openapi.json").await;
    for (path, described) in document["paths"].as_object().unwrap() {
        for (method, operation) in described.as_object().unwrap() {
            let promised = VERBS.iter().find(|it| it.0.to_lowercase() == *method && is_at(path, it.1));
            let role = promised.unwrap_or_else(|| panic!("nothing is promised of {method} {path}")).3;
            assert_eq!(operation["description"], format!("For the role `{role}`."), "{method} {path}");
        }
    }
}

/// Hostile 3.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_does_what_it_includes_and_nothing_else() {
    let function = picky().await;
    let server = Server::with(&orders(&function, TOKENS));
    let roles = ["viewer", "operator", "admin"];
    for (method, path, body, needed) in VERBS {
        let method: Method = method.parse().unwrap();
        let needed = roles.iter().position(|it| it == needed).unwrap();
        for (place, role) in roles.iter().enumerate() {
            let got = server.ask_as(&format!("{role}-0123456789"), &method, path, body).await;
            if place < needed {
                assert_eq!(told(&got), (403, "forbidden".to_owned()), "{role}: {method} {path}");
            } else {
                assert!(
                    !matches!(got.status.as_u16(), 401 | 403 | 405 | 422 | 500),
                    "{role}: {method} {path}: {got:?}"
                );
            }
        }
    }
}

/// Hostile 3: whoever tried is in the audit log, and so is everybody who did.
#[tokio::test(flavor = "multi_thread")]
async fn who_changed_what_is_written_down_and_so_is_who_tried() {
    let function = picky().await;
    let server = Server::with(&orders(&function, TOKENS));
    for role in ["viewer", "operator"] {
        server.ask_as(&format!("{role}-0123456789"), &Method::POST, "/v1/functions/orders/pause", "").await;
    }
    server.ask_as("admin-0123456789", &Method::POST, "/v1/functions/orders/resume", "").await;
    server.ask_as("operator-0123456789", &Method::POST, "/v1/purge", "").await;
    server.ask_as("admin-0123456789", &Method::POST, "/v1/purge", "").await;
    let audit = server.ask_as("viewer-0123456789", &Method::GET, "/v1/audit", "").await;
    let audit: serde_json::Value = serde_json::from_slice(&audit.body).unwrap();
    let line = |it: &serde_json::Value| {
        let text = |name: &str| it[name].as_str().unwrap().to_owned();
        format!("{} | {} | {} | {}\n", text("who"), text("what"), text("subject"), text("detail"))
    };
    let mut lines: Vec<_> = audit["entries"].as_array().unwrap().iter().map(line).collect();
    // Two in one millisecond have no order.
    lines.sort();
    assert_snapshot!(lines.concat());
}

/// Hostile 1, 2, 42: nobody learns what there is, or why they are not let in.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_not_known_is_told_the_same_everywhere() {
    let function = picky().await;
    let server = Server::with(&orders(&function, TOKENS));
    let mut all = Vec::new();
    for path in ["/v1/functions", "/v1/executions/00", "/v1/nowhere", "/v1/functions?token=admin-0123456789"]
    {
        for headers in
            [&[][..], &[("authorization", "Bearer wrong")], &[("authorization", "Basic admin-0123456789")]]
        {
            let got = server.ask_with(&Method::GET, path, headers, "").await;
            assert_eq!(told(&got), (401, "unauthorized".to_owned()), "{path} {headers:?}");
            assert_eq!(got.header("www-authenticate"), Some("Bearer"));
            all.push(got.body);
        }
    }
    all.dedup();
    assert_eq!(all.len(), 1);
    // So many wrong tokens were too many, and a right one does not help.
    server.ask_as("wrong", &Method::GET, "/v1/jobs", "").await;
    server.ask_as("wrong", &Method::GET, "/v1/jobs", "").await;
    let got = server.ask_as("admin-0123456789", &Method::GET, "/v1/jobs", "").await;
    assert_eq!((told(&got), got.header("retry-after")), ((429, "too-many-guesses".to_owned()), Some("60")));
}

/// Hostile 42: what is counted tells of functions, of how much comes and of what fails.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_whoever_may_look_and_probes_are_for_everybody() {
    let function = picky().await;
    let server = Server::with(&orders(&function, TOKENS));
    let nobody = server.ask_with(&Method::GET, "/v1/server", &[], "").await;
    for headers in [&[][..], &[("authorization", "Bearer wrong")], &[("authorization", "Basic dmVyYTp4")]] {
        let got = server.ask_with(&Method::GET, "/metrics", headers, "").await;
        assert_eq!(told(&got), (401, "unauthorized".to_owned()), "{headers:?}");
        assert_eq!((got.header("www-authenticate"), &got.body), (Some("Bearer"), &nobody.body));
    }
    for role in ["viewer", "operator", "admin"] {
        let got = server.ask_as(&format!("{role}-0123456789"), &Method::GET, "/metrics", "").await;
        assert!(got.status == 200 && got.text().contains("\nsemel_up 1\n"), "{role}: {got:?}");
    }
    let elsewhere = [("host", "evil.example"), ("authorization", "Bearer viewer-0123456789")];
    let got = server.ask_with(&Method::GET, "/metrics", &elsewhere, "").await;
    assert_eq!(told(&got), (421, "misdirected".to_owned()), "a page that was pointed here reads nothing");
    for (path, text) in [("/health", "{\"status\":\"healthy\"}\n"), ("/ready", "{\"status\":\"ready\"}\n")] {
        let got = server.ask_with(&Method::GET, path, &[], "").await;
        assert_eq!((got.status.as_u16(), got.text()), (200, text), "a probe has no token");
    }
}

/// With an address of its own, the admin API needs its tokens there, and so do the metrics.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_need_a_token_at_the_admin_apis_own_address_too() {
    let function = picky().await;
    let arguments = ["--store", "memory:", "--admin-listen", "127.0.0.1:0"];
    let server = Server::start(tempfile::tempdir().unwrap(), &orders(&function, TOKENS), &arguments);
    let url = format!("http://{}/metrics", server.program.admin.unwrap());
    let ask = async |token: Option<&str>| {
        let request = http::Request::get(&url);
        let request = token.into_iter().fold(request, |it, token| it.header("authorization", token));
        crate::support::Client::new().send(request.body(super::support::full("")).unwrap()).await
    };
    assert_eq!(told(&ask(None).await), (401, "unauthorized".to_owned()));
    assert_eq!(ask(Some("Bearer viewer-0123456789")).await.status, 200);
}

/// Hostile 42: no default credential where others are.
#[test]
fn off_this_machine_nobody_operates_it_without_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[events]\nauth = \"none\"\n";
    std::fs::write(directory.path().join("semel.toml"), config).unwrap();
    let serve = ["serve", "--config", "semel.toml", "--store", "memory:", "--log", "off", "--listen"];
    let ended = semel(directory.path(), &[&serve[..], &["0.0.0.0:0"]].concat());
    assert_snapshot!(format!("exit code {}\n{}", ended.code.unwrap(), ended.stderr));
}

/// Where a token is missing that the file names, the server does not start.
#[test]
fn a_token_that_is_not_there_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[[token]]\nname = \"ada\"\nrole = \"admin\"\nsecret = \"env:SEMEL_NO_SUCH_TOKEN\"\n";
    std::fs::write(directory.path().join("semel.toml"), config).unwrap();
    let serve =
        ["serve", "--config", "semel.toml", "--store", "memory:", "--log", "off", "--listen", "127.0.0.1:0"];
    let ended = semel(directory.path(), &serve);
    std::fs::write(directory.path().join("token"), "fifteen-bytes!!\n").unwrap();
    let short = config.replace("env:SEMEL_NO_SUCH_TOKEN", "file:token");
    std::fs::write(directory.path().join("semel.toml"), short).unwrap();
    let guessable = semel(directory.path(), &serve);
    let wrong =
        "[[token]]\nname = \"ada\"\nrole = \"root\"\nsecret = \"short-one\"\n[[token]]\nname = \"ada\"\n";
    std::fs::write(directory.path().join("wrong.toml"), wrong).unwrap();
    let checked = semel(directory.path(), &["check", "wrong.toml"]);
    assert_snapshot!(format!(
        "exit code {}\n{}\nexit code {}\n{}\nexit code {}\n{}",
        ended.code.unwrap(),
        ended.stderr,
        guessable.code.unwrap(),
        guessable.stderr,
        checked.code.unwrap(),
        checked.stderr
    ));
}
