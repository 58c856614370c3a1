//! The document says what the API does, and the API does what the document says.

use super::support::{Server, orders, picky, told};
use crate::support::Upstream;
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Asks for this operation, which must be done, and answered as the document says. What was answered.
pub(super) async fn done(server: &Server, operation: &str, name: &str, body: &str) -> Value {
    let document = server.get("/v1/openapi.json").await;
    let (path, method, described) = found(&document, operation);
    let path = path.split('/').map(|it| if it.starts_with('{') { name } else { it }).collect::<Vec<_>>();
    let got = server.ask_with(&method, &path.join("/"), &[], body).await;
    let response = &described["responses"][got.status.as_str()];
    assert!(got.status.is_success() && response.is_object(), "{operation}: {got:?}");
    let value = serde_json::from_slice::<Value>(&got.body).unwrap();
    let schema = &response["content"]["application/json"]["schema"];
    assert_eq!(mismatch(&document, schema, &value, operation), None);
    value
}

/// Why a value is not as a schema says; nothing if it is.
fn mismatch(document: &Value, schema: &Value, value: &Value, place: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let found =
            document.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("{name} is not there"));
        return mismatch(document, found, value, place);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let all: Vec<_> = any.iter().map(|it| mismatch(document, it, value, place)).collect();
        return if all.iter().any(Option::is_none) { None } else { all.into_iter().flatten().next() };
    }
    let is_right = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        other => panic!("{place}: no such type: {other:?}"),
    };
    if !is_right || schema["enum"].as_array().is_some_and(|it| !it.contains(value)) {
        return Some(format!("{place} is {value}: wanted {schema}"));
    }
    for item in value.as_array().into_iter().flatten() {
        if let Some(found) = mismatch(document, &schema["items"], item, &format!("{place}[]")) {
            return Some(found);
        }
    }
    let properties = schema["properties"].as_object()?;
    let object = value.as_object().into_iter().flatten();
    for (name, value) in object {
        let place = format!("{place}.{name}");
        match properties.get(name) {
            Some(schema) => {
                if let Some(found) = mismatch(document, schema, value, &place) {
                    return Some(found);
                }
            }
            None if schema["additionalProperties"].is_object() => {
                if let Some(found) = mismatch(document, &schema["additionalProperties"], value, &place) {
                    return Some(found);
                }
            }
            None => return Some(format!("{place} is not in the document")),
        }
    }
    let missing = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|it| value.get(it.as_str().unwrap()).is_none());
    missing.map(|it| format!("{place}.{it} is missing"))
}

/// Every operation, with what it is asked: what stands for the name, the query, the body.
fn samples(
    dead: &str,
    waiting: &str,
    doubt: &str,
    print: &str,
) -> Vec<(&'static str, String, &'static str, String)> {
    let none = String::new;
    let name = |it: &str| it.to_owned();
    vec![
        ("server", none(), "", none()),
        ("openapi", none(), "", none()),
        ("listFunctions", none(), "", none()),
        ("showFunction", name("orders"), "", none()),
        (
            "putFunction",
            name("added"),
            "",
            r#"{"url": "http://127.0.0.1:1/", "filter": {"type": "none"}}"#.to_owned(),
        ),
        ("removeFunction", name("added"), "", none()),
        ("pauseFunction", name("orders"), "", none()),
        ("drainFunction", name("orders"), "", r#"{"within_secs": 0}"#.to_owned()),
        ("listExecutions", none(), "?function=orders&limit=1", none()),
        ("showExecution", name(dead), "", none()),
        ("why", none(), "?q=dead", none()),
        ("parkExecution", name(waiting), "", none()),
        ("unparkExecution", name(waiting), "", none()),
        ("redriveExecution", name(dead), "", none()),
        ("cancelExecution", name(dead), "", none()),
        ("resolveExecution", name(doubt), "", r#"{"outcome": "happened"}"#.to_owned()),
        (
            "bulk",
            none(),
            "",
            r#"{"action": "redrive", "filter": {"function": "orders"}, "dry_run": true}"#.to_owned(),
        ),
        ("listJobs", none(), "", none()),
        ("showJob", name("1"), "", none()),
        ("abortJob", name("1"), "", none()),
        ("listErrors", none(), "", none()),
        ("stopErrors", name(print), "", none()),
        ("resumeFunction", name("orders"), "", none()),
        ("audit", none(), "?limit=2", none()),
        ("ledger", none(), "", none()),
        ("purge", none(), "", none()),
        ("replayPast", none(), "", none()),
        ("skipPast", none(), "", none()),
        ("metrics", none(), "", none()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_answers_as_the_document_says() {
    let function = picky().await;
    let server = Server::before(&function);
    server.event("dead", "{}").await;
    server.event("late", r#"{"late": true}"#).await;
    let dead = server.why_when("dead", |it| it["execution"]["status"] == "FAILED").await;
    let late = server.why_when("late", |it| !it["history"].as_array().unwrap().is_empty()).await;
    let text = |it: &Value, name: &str| it["execution"][name].as_str().unwrap().to_owned();
    let (dead_id, late_id, print) = (text(&dead, "id"), text(&late, "id"), text(&late, "error_print"));
    let document = server.get("/v1/openapi.json").await;
    let mut asked = BTreeSet::new();
    // What cannot be done to these executions, or this store, is a problem, which the document has, too.
    let refused = ["resolveExecution", "abortJob", "replayPast", "skipPast"];
    for (operation, name, query, body) in samples(&dead_id, &late_id, &dead_id, &print) {
        let (path, method, described) = found(&document, operation);
        let path = path
            .split('/')
            .map(|it| if it.starts_with('{') { name.as_str() } else { it })
            .collect::<Vec<_>>();
        if !body.is_empty() {
            let schema = &described["requestBody"]["content"]["application/json"]["schema"];
            let asked = serde_json::from_str::<Value>(&body).unwrap();
            assert_eq!(mismatch(&document, schema, &asked, &format!("the body of {operation}")), None);
        }
        let got = server.ask_with(&method, &format!("{}{query}", path.join("/")), &[], &body).await;
        let status = got.status.as_u16().to_string();
        let response = described["responses"].get(&status).unwrap_or(&described["responses"]["default"]);
        assert!(got.status.is_success() || refused.contains(&operation), "{operation}: {got:?}");
        let media_type = got.header("content-type").unwrap().split(';').next().unwrap();
        let schema = &response["content"][media_type]["schema"];
        let is_text = media_type == "text/plain";
        let value =
            if is_text { got.text().into() } else { serde_json::from_slice::<Value>(&got.body).unwrap() };
        assert_eq!(mismatch(&document, schema, &value, operation), None);
        asked.insert(operation.to_owned());
    }
    let all = operations(&document).into_iter().map(|(name, ..)| name).collect::<BTreeSet<_>>();
    assert_eq!(asked, all);
}

/// What seldom can be done is answered as the document says, too, when it is.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_resolved_or_aborted_is_answered_as_the_document_says() {
    let (function, _gate) = Upstream::gated().await;
    let server = Server::with(&orders(&function, "timeout = \"1s\"\non_lost = \"report\"\n"));
    server.event("charged", "{}").await;
    let doubt = server.why_when("charged", |it| it["execution"]["reason"] == "outcome_unknown").await;
    let id = doubt["execution"]["id"].as_str().unwrap();
    let resolved = done(&server, "resolveExecution", id, r#"{"outcome": "happened"}"#).await;
    assert_eq!(resolved["execution"]["status"], "COMPLETED");
    server.post("/v1/functions/orders/pause", "").await;
    for id in ["a", "b"] {
        server.event(id, "{}").await;
    }
    let slowly = r#"{"action": "cancel", "all": true, "rate": "1/h"}"#;
    let job = done(&server, "bulk", "", slowly).await["number"].to_string();
    server.when(&format!("/v1/jobs/{job}"), |it| it["done"] == 1).await;
    assert_eq!(done(&server, "abortJob", &job, "").await["done"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_answered_that_is_not_in_the_document() {
    let function = picky().await;
    let server = Server::with(&orders(&function, ""));
    let document = server.get("/v1/openapi.json").await;
    for (path, described) in document["paths"].as_object().unwrap() {
        let path = path
            .split('/')
            .map(|it| if it.starts_with('{') { "x" } else { it })
            .collect::<Vec<_>>()
            .join("/");
        let mut allowed: Vec<_> = described.as_object().unwrap().keys().map(|it| it.to_uppercase()).collect();
        allowed.sort();
        if allowed.contains(&"GET".to_owned()) {
            allowed.push("HEAD".to_owned());
        }
        // Hostile 45.
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
            if allowed.contains(&method.to_owned()) {
                continue;
            }
            let got = server.ask_with(&method.parse().unwrap(), &path, &[], "").await;
            assert_eq!(
                (got.status.as_u16(), got.header("allow")),
                (405, Some(&*allowed.join(", "))),
                "{method} {path}"
            );
        }
    }
    for path in [
        "/v1",
        "/v1/",
        "/v1/execution",
        "/v1/executions/",
        "/v1/functions/orders/stop",
        "/v1/why/x",
        "/v1/metrics",
    ] {
        let got = server.ask_with(&Method::GET, path, &[], "").await;
        assert_eq!(told(&got), (404, "not-found".to_owned()), "{path}");
    }
}

#[test]
fn the_check_notices_what_is_wrong() {
    let document = json!({"components": {"schemas": {"Kind": {"type": "string", "enum": ["a"]}}}});
    let schema = json!({
        "type": "object",
        "properties": {
            "kind": {"$ref": "#/components/schemas/Kind"},
            "more": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        },
        "required": ["kind"],
    });
    let is_right = |value: Value| mismatch(&document, &schema, &value, "").is_none();
    assert!(is_right(json!({"kind": "a", "more": null})) && is_right(json!({"kind": "a", "more": [1]})));
    for wrong in [
        json!({}),
        json!({"kind": "b"}),
        json!({"kind": "a", "more": ["x"]}),
        json!({"kind": "a", "x": 1}),
        json!([]),
    ] {
        assert!(!is_right(wrong.clone()), "{wrong}");
    }
}

fn operations(document: &Value) -> Vec<(String, String, Method, Value)> {
    let mut all = Vec::new();
    for (path, described) in document["paths"].as_object().unwrap() {
        for (method, operation) in described.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            all.push((name, path.clone(), method.to_uppercase().parse().unwrap(), operation.clone()));
        }
    }
    all
}

fn found(document: &Value, operation: &str) -> (String, Method, Value) {
    let all = operations(document);
    let (_, path, method, described) =
        all.into_iter().find(|it| it.0 == operation).unwrap_or_else(|| panic!("{operation}"));
    (path, method, described)
}
