//! What operators do, from the beginning to the end.

use super::support::{Server, orders, picky};
use crate::support::Upstream;
use http::Method;
use serde_json::{Value, json};

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no `{name}` in {value}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_found_edited_and_redriven() {
    let function = picky().await;
    let server = Server::before(&function);
    server.event("order-42", r#"{"good": false}"#).await;
    let dead = server.why_when("order-42", |it| it["execution"]["status"] == "FAILED").await;
    let execution = &dead["execution"];
    assert_eq!((text(execution, "reason"), text(execution, "function")), ("fatal", "orders"));
    assert_eq!(dead["can"], json!(["redrive"]));
    assert_eq!(dead["event"]["data"], json!({"good": false}));
    let errors = server.get("/v1/errors").await;
    assert_eq!(
        (&errors["errors"][0]["dead"], &errors["errors"][0]["print"]),
        (&json!(1), &execution["error_print"])
    );
    let list =
        server.get(&format!("/v1/executions?error={}&status=FAILED", text(execution, "error_print"))).await;
    assert_eq!(list["executions"][0]["id"], execution["id"]);

    let mut event = dead["event"].clone();
    event["data"]["good"] = json!(true);
    let path = format!("/v1/executions/{}/redrive", text(execution, "id"));
    let redriven = server.post(&path, &json!({ "event": event }).to_string()).await;
    assert_eq!(redriven["execution"]["generation"], 1);
    let entry = &server.get("/v1/audit").await["entries"][0];
    assert_eq!((text(entry, "what"), &entry["subject"]), ("edit and redrive", &execution["id"]));
    let detail = text(entry, "detail");
    assert!(
        detail.starts_with("edited: data; sha-256 of the data before ") && !detail.contains("good"),
        "{detail}"
    );
    let done = server.why_when("order-42", |it| it["execution"]["status"] == "COMPLETED").await;
    assert_eq!(done["next"], "Nothing: it took effect, and does not again.");
    let again = server.ask_with(&Method::POST, &path, &[], "").await;
    assert_eq!(again.status, 409, "{again:?}");
    let ledger = server.get("/v1/ledger").await;
    let total = &ledger["total"];
    assert_eq!(
        (&total["accepted"], &total["completed"], &total["is_balanced"]),
        (&json!(1), &json!(1), &json!(true))
    );
}

/// Its repeats are not written while it runs.
#[tokio::test(flavor = "multi_thread")]
async fn how_often_an_event_came_again_is_told_while_it_runs() {
    let (function, gate) = Upstream::gated().await;
    let server = Server::before(&function);
    for data in ["{}", "{}", "{}", "[]"] {
        server.event("order-42", data).await;
    }
    let is_told = |it: &Value| {
        let execution = &it["execution"];
        execution["status"] == "IN_PROGRESS" && execution["duplicates"] == 2 && execution["mismatches"] == 1
    };
    let told = server.why_when("order-42", is_told).await;
    assert!(told["repeated_at"].is_string(), "{told}");
    let path = format!("/v1/executions/{}", text(&told["execution"], "id"));
    server.when(&path, is_told).await;
    gate.open(1);
    let done = server.why_when("order-42", |it| it["execution"]["status"] == "COMPLETED").await;
    assert_eq!(done["execution"]["attempts"], 1);
    server.when(&path, |it| it["execution"]["duplicates"] == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_none_is_not_redriven() {
    let function = picky().await;
    let server = Server::before(&function);
    server.event("a", "{}").await;
    let dead = server.why_when("a", |it| it["execution"]["status"] == "FAILED").await;
    let path = format!("/v1/executions/{}/redrive", text(&dead["execution"], "id"));
    for event in [json!({}), json!({"specversion": "9.9", "id": "a", "source": "/", "type": "t"})] {
        let got = server.ask_with(&Method::POST, &path, &[], &json!({ "event": event }).to_string()).await;
        assert_eq!(got.status, 422, "{event}");
    }
    assert_eq!(server.why_when("a", |_| true).await["execution"]["generation"], 0);
}

/// Whoever edits an event does not make another one of it: that one would be nobody's duplicate.
#[tokio::test(flavor = "multi_thread")]
async fn what_names_an_event_stays_when_it_is_edited_and_the_rest_may_change() {
    let function = picky().await;
    let server = Server::before(&function);
    server.event("order-42", "{}").await;
    let dead = server.why_when("order-42", |it| it["execution"]["status"] == "FAILED").await;
    let path = format!("/v1/executions/{}/redrive", text(&dead["execution"], "id"));
    for name in ["id", "source"] {
        let mut event = dead["event"].clone();
        event[name] = json!("/another");
        let got = server.ask_with(&Method::POST, &path, &[], &json!({ "event": event }).to_string()).await;
        let problem: Value = serde_json::from_slice(&got.body).unwrap();
        let wanted = format!("The `{name}` of the edited event is another");
        assert!(got.status == 422 && text(&problem, "detail").starts_with(&wanted), "{problem}");
    }
    assert_eq!(server.why_when("order-42", |_| true).await["execution"]["generation"], 0);
    let mut event = dead["event"].clone();
    event["type"] = json!("order.mended");
    event["subject"] = json!("42");
    event["data"] = json!({"good": true});
    server.post(&path, &json!({ "event": event }).to_string()).await;
    let done = server.why_when("order-42", |it| it["execution"]["status"] == "COMPLETED").await;
    assert_eq!(
        (&done["event"]["type"], &done["execution"]["type"]),
        (&json!("order.mended"), &json!("order.created"))
    );
    let entry = &server.get("/v1/audit").await["entries"][0];
    assert!(text(entry, "detail").starts_with("edited: data, type, subject; "), "{entry}");
}

/// What a function answered is kept, and whoever sees events sees it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_function_answered_is_told() {
    let function = picky().await;
    let server = Server::before(&function);
    server.event("good", r#"{"good": true}"#).await;
    server.event("bad", "{}").await;
    let done = server.why_when("good", |it| it["execution"]["status"] == "COMPLETED").await;
    let result = &done["result"];
    assert_eq!(
        (&result["text"], &result["size"], &result["is_whole"]),
        (&json!("\"done\""), &json!(6), &json!(true))
    );
    assert!(result["until"].is_string() && result["base64"].is_null(), "{result}");
    let dead = server.why_when("bad", |it| it["execution"]["status"] == "FAILED").await;
    assert_eq!(dead["result"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_function_is_not_called_until_it_is_resumed() {
    let function = picky().await;
    let server = Server::before(&function);
    let paused = server.post("/v1/functions/orders/pause", "").await;
    assert_eq!((&paused["is_paused"], &paused["is_changed"]), (&json!(true), &json!(true)));
    assert_eq!(server.post("/v1/functions/orders/pause", "").await["is_changed"], false);
    server.event("a", r#"{"good": true}"#).await;
    let waiting = server.why_when("a", |_| true).await;
    assert_eq!(waiting["next"], "It waits: `orders` is paused. Attempt 1 begins when it is resumed.");
    assert_eq!(function.calls(), 0);
    server.post("/v1/functions/orders/resume", "").await;
    server.why_when("a", |it| it["execution"]["status"] == "COMPLETED").await;
    assert_eq!(function.calls(), 1);
    let who = server.last_audit().await;
    assert_eq!((who.0.as_str(), who.1.as_str()), ("local", "resume"));
    assert_eq!(server.post("/v1/functions/orders/drain", "").await["is_idle"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_parked_unparked_and_cancelled() {
    let function = picky().await;
    let server = Server::before(&function);
    server.event("a", r#"{"late": true}"#).await;
    let waiting = server
        .why_when("a", |it| it["execution"]["status"] == "PENDING" && it["execution"]["attempts"] == 1)
        .await;
    assert_eq!(waiting["history"][0]["number"], 1);
    let id = text(&waiting["execution"], "id").to_owned();
    let parked = server.post(&format!("/v1/executions/{id}/park"), "").await;
    assert_eq!(
        (&parked["execution"]["is_parked"], &parked["can"]),
        (&json!(true), &json!(["unpark", "cancel"]))
    );
    server.post(&format!("/v1/executions/{id}/unpark"), "").await;
    let cancelled = server.post(&format!("/v1/executions/{id}/cancel"), "").await;
    assert_eq!(cancelled["execution"]["reason"], "cancelled");
    let audit = server.get(&format!("/v1/audit?subject={id}")).await;
    let mut whats: Vec<_> = audit["entries"].as_array().unwrap().iter().map(|it| text(it, "what")).collect();
    whats.sort_unstable();
    assert_eq!(whats, ["cancel", "park", "unpark"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_counted_first_and_redriven_after() {
    let function = picky().await;
    let server = Server::before(&function);
    for id in 0..7 {
        server.event(&format!("bad-{id}"), "{}").await;
    }
    server.event("good", r#"{"good": true}"#).await;
    server.when("/v1/ledger", |it| it["total"]["dead"] == 7 && it["total"]["completed"] == 1).await;
    let filter = r#""filter": {"function": "orders", "status": "FAILED"}"#;
    let counted =
        server.post("/v1/bulk", &format!(r#"{{"action": "redrive", "dry_run": true, {filter}}}"#)).await;
    let job = format!("/v1/jobs/{}", counted["number"]);
    let counted = server.when(&job, |it| it["state"] == "finished").await;
    assert_eq!((&counted["matched"], &counted["done"]), (&json!(7), &json!(0)));
    assert_eq!(function.calls(), 8);
    let begun = server.post("/v1/bulk", &format!(r#"{{"action": "redrive", {filter}}}"#)).await;
    let job = format!("/v1/jobs/{}", begun["number"]);
    let over = server.when(&job, |it| it["state"] == "finished").await;
    assert_eq!((&over["matched"], &over["done"]), (&json!(7), &json!(7)));
    function.called(15).await;
    assert_eq!(server.get("/v1/jobs").await["jobs"].as_array().unwrap().len(), 2);
}

/// What an operator ended stays ended, unless it is asked for by its name.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_cancelled_or_dropped_is_no_dead_letter() {
    let function = picky().await;
    let another = |name: &str, more: &str| {
        format!("[[function]]\nname = \"{name}\"\nurl = \"http://{}/\"\n{more}\n", function.address)
    };
    let others = another("drops", "") + &another("forgets", "retry = \"gen2\"\ndead_letter = \"none\"");
    let server = Server::with(&orders(&function, &others));
    server.event("bad", "{}").await;
    server.event("late", r#"{"late": true}"#).await;
    let late = "/v1/executions?status=PENDING&name=late";
    let late = server.when(late, |it| it["executions"].as_array().unwrap().len() == 2).await;
    for it in late["executions"].as_array().unwrap() {
        server.post(&format!("/v1/executions/{}/cancel", text(it, "id")), "").await;
    }
    let is_settled = |it: &Value| {
        (&it["total"]["dead"], &it["total"]["cancelled"], &it["total"]["dropped"])
            == (&json!(3), &json!(2), &json!(1))
    };
    server.when("/v1/ledger", is_settled).await;
    let dead = server.get("/v1/executions?dead=true").await;
    let mut dead: Vec<_> =
        dead["executions"].as_array().unwrap().iter().map(|it| text(it, "function")).collect();
    dead.sort_unstable();
    assert_eq!(dead, ["drops", "orders"], "`forgets` kept no event of it");
    let over = async |body: &str| {
        let job = server.post("/v1/bulk", body).await;
        server.when(&format!("/v1/jobs/{}", job["number"]), |it| it["state"] == "finished").await
    };
    let counts = |it: &Value| ["matched", "done", "skipped"].map(|name| it[name].as_u64().unwrap());
    let dry = over(r#"{"action": "redrive", "all": true, "dry_run": true}"#).await;
    assert_eq!(counts(&dry), [2, 0, 0]);
    let dropped = r#"{"action": "redrive", "filter": {"reason": "dropped"}, "dry_run": true}"#;
    assert_eq!(counts(&over(dropped).await), [1, 0, 1], "its event was not kept");
    assert_eq!(counts(&over(r#"{"action": "redrive", "all": true}"#).await), [2, 2, 0]);
    server.when("/v1/ledger", is_settled).await;
    let cancelled = r#"{"action": "redrive", "filter": {"reason": "cancelled"}, "rate": "1/h"}"#;
    let job = server.post("/v1/bulk", cancelled).await;
    let job = format!("/v1/jobs/{}", job["number"]);
    server.when(&job, |it| it["done"] == 1).await;
    server.post(&format!("{job}/abort"), "").await;
    server.when(&job, |it| it["state"] == "aborted").await;
    // Whether its end or the abort stands first in there depends on who was faster.
    let ended = |it: &Value| it["detail"] == "1 matched, 1 changed, 0 skipped: aborted";
    let audit = server.when("/v1/audit", |it| it["entries"].as_array().unwrap().iter().any(ended)).await;
    let details: Vec<_> = audit["entries"].as_array().unwrap().iter().map(|it| text(it, "detail")).collect();
    assert!(
        details.contains(&"redrive of status FAILED, reason cancelled; 1 in 3600s"),
        "in words that can be read: {details:?}"
    );
}

/// Most of what a server remembers took effect, and cannot be cancelled any more.
#[tokio::test(flavor = "multi_thread")]
async fn to_cancel_all_is_to_look_at_what_has_not_ended() {
    let function = picky().await;
    let server = Server::before(&function);
    for id in ["good-1", "good-2"] {
        server.event(id, r#"{"good": true}"#).await;
        server.why_when(id, |it| it["execution"]["status"] == "COMPLETED").await;
    }
    server.post("/v1/functions/orders/pause", "").await;
    server.event("waits", r#"{"good": true}"#).await;
    for (dry, done) in [("true", 0), ("false", 1)] {
        let body = format!(r#"{{"action": "cancel", "all": true, "dry_run": {dry}}}"#);
        let job = server.post("/v1/bulk", &body).await;
        let over = server.when(&format!("/v1/jobs/{}", job["number"]), |it| it["state"] == "finished").await;
        let counts = ["matched", "done", "skipped"].map(|it| over[it].as_u64().unwrap());
        assert_eq!(counts, [1, done, 0], "{over}");
    }
    let cancelled = server.why_when("waits", |it| it["execution"]["reason"] == "cancelled").await;
    let audit = server.get(&format!("/v1/audit?subject={}", text(&cancelled["execution"], "id"))).await;
    assert_eq!(
        (&audit["entries"][0]["what"], &audit["entries"][0]["detail"]),
        (&json!("cancel"), &json!("job 2"))
    );
}

/// A function that takes its time, and wants to be asked about.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_tell_of_is_resolved_by_somebody_who_looked() {
    let (function, gate) = Upstream::gated().await;
    let server = Server::with(&orders(&function, "timeout = \"1s\"\non_lost = \"report\"\n"));
    for id in ["charged", "not-charged"] {
        server.event(id, "{}").await;
    }
    let unknown = async |id: &str| {
        let found = server.why_when(id, |it| it["execution"]["status"] == "FAILED").await;
        assert_eq!(
            (&found["execution"]["reason"], &found["can"]),
            (&json!("outcome_unknown"), &json!(["resolve"]))
        );
        format!("/v1/executions/{}", text(&found["execution"], "id"))
    };
    let (charged, not) = (unknown("charged").await, unknown("not-charged").await);
    assert_eq!(function.calls(), 2, "nothing is called again by itself");
    for path in [&charged, &not] {
        let got = server.ask_with(&Method::POST, &format!("{path}/redrive"), &[], "").await;
        assert_eq!(got.status, 409, "it could happen twice: {got:?}");
    }
    let resolved = server.post(&format!("{charged}/resolve"), r#"{"outcome": "happened"}"#).await;
    assert_eq!(resolved["execution"]["status"], "COMPLETED");
    gate.open(100);
    server.post(&format!("{not}/resolve"), r#"{"outcome": "did_not"}"#).await;
    server.why_when("not-charged", |it| it["execution"]["status"] == "COMPLETED").await;
    assert_eq!(function.calls(), 3);
    assert_eq!(server.last_audit().await.1, "resolve: did not happen");
}

/// What was asked for is what is grouped, and not everything.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_grouped_of_what_was_asked_for() {
    let function = picky().await;
    let other = format!(
        "[[function]]\nname = \"others\"\nurl = \"http://{}/\"\nretry = \"gen2\"\n",
        function.address
    );
    let server = Server::with(&orders(&function, &other));
    for (id, data) in [("bad", "{}"), ("late", r#"{"late": true}"#)] {
        server.event(id, data).await;
    }
    let sums = |it: &Value| {
        let sum = |name: &str| {
            it["errors"].as_array().unwrap().iter().map(|it| it[name].as_u64().unwrap()).sum::<u64>()
        };
        (sum("dead"), sum("waiting"))
    };
    let all = server.when("/v1/errors", |it| sums(it) == (2, 2)).await;
    assert_eq!(
        (&all["has_more"], &all["is_whole"], &all["looked_at"]),
        (&json!(false), &json!(true), &json!(4))
    );
    let print = text(&all["errors"][0], "print");
    for (query, wanted) in [
        ("function=others", (1, 1)),
        ("function=nobody", (0, 0)),
        ("reason=fatal", (2, 0)),
        ("name=late", (0, 2)),
        ("type=order.created&accepted_before=2020-01-01T00:00:00Z", (0, 0)),
        ("accepted_from=2020-01-01T00:00:00Z", (2, 2)),
    ] {
        let found = server.get(&format!("/v1/errors?{query}")).await;
        assert_eq!(sums(&found), wanted, "{query}: {found}");
    }
    let one = server.get(&format!("/v1/errors?error={print}")).await;
    assert_eq!((&one["errors"][0]["print"], one["errors"].as_array().unwrap().len()), (&json!(print), 1));
    let first = server.get("/v1/errors?limit=1").await;
    assert_eq!((first["errors"].as_array().unwrap().len(), &first["has_more"]), (1, &json!(true)));
    let wrong = server.ask_with(&Method::GET, "/v1/errors?holder=1", &[], "").await;
    assert_eq!(wrong.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_with_one_error_is_stopped() {
    let function = picky().await;
    let server = Server::before(&function);
    for id in 0..3 {
        server.event(&format!("late-{id}"), r#"{"late": true}"#).await;
    }
    let errors = server.when("/v1/errors", |it| it["errors"][0]["waiting"] == 3).await;
    let print = text(&errors["errors"][0], "print");
    let job = server.post(&format!("/v1/errors/{print}/stop"), "").await;
    server
        .when(&format!("/v1/jobs/{}", job["number"]), |it| it["state"] == "finished" && it["done"] == 3)
        .await;
    let list = server.get("/v1/executions?status=PENDING").await;
    assert!(list["executions"].as_array().unwrap().iter().all(|it| it["is_parked"] == true), "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_follow_each_other_and_miss_nothing() {
    let function = picky().await;
    let server = Server::with(&orders(&function, ""));
    for id in 0..5 {
        server.event(&format!("e{id}"), r#"{"good": true}"#).await;
    }
    let (mut seen, mut path) = (Vec::new(), "/v1/executions?limit=2".to_owned());
    loop {
        let page = server.get(&path).await;
        seen.extend(page["executions"].as_array().unwrap().iter().map(|it| text(it, "event_id").to_owned()));
        let Some(cursor) = page["next"].as_str() else { break };
        path = format!("/v1/executions?limit=2&cursor={cursor}");
    }
    seen.sort();
    assert_eq!(seen, ["e0", "e1", "e2", "e3", "e4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn why_finds_by_event_by_id_and_by_the_beginning_of_an_id() {
    let function = picky().await;
    let server = Server::before(&function);
    server.event("order-42", r#"{"good": true}"#).await;
    server.event("order-42", r#"{"good": true}"#).await;
    let found = server.why_when("order-42", |it| it["execution"]["duplicates"] == 1).await;
    assert!(found["repeated_at"].is_string());
    let id = text(&found["execution"], "id");
    for q in [id, &id[..12]] {
        assert_eq!(server.why_when(q, |_| true).await["execution"]["event_id"], "order-42", "{q}");
    }
    assert_eq!(server.get("/v1/why?q=order-43").await["found"], json!([]));
}

/// What the file allows of the disk is what there is.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_the_disk_in_the_file_is_the_room_that_is_told() {
    const MOST: u64 = 512 << 20;
    let function = picky().await;
    let limits = "[server.limits]\ndisk_bytes_max = \"512MiB\"\n";
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory, &orders(&function, limits), &["--store", "./kept"]);
    server.event("a", r#"{"good": true}"#).await;
    let store = &server.get("/v1/server").await["store"];
    let [used, left] = ["used_bytes", "left_bytes"].map(|it| store[it].as_u64().unwrap());
    assert!(used > 0 && left > 0 && used + left <= MOST, "{store}");
    let metrics = server.ask_with(&Method::GET, "/metrics", &[], "").await;
    assert!(metrics.text().contains("semel_store_full 0"), "{}", metrics.text());
}

/// Semantics 6: what the running configuration promises is told, and how much room it has.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_tells_what_its_store_promises_and_how_full_the_disk_is() {
    let function = picky().await;
    let server = Server::before(&function);
    let store = &server.get("/v1/server").await["store"];
    assert_eq!((text(store, "place"), text(store, "tier")), ("memory:", "C"));
    assert!(text(store, "promise").starts_with("best effort") && store["used_bytes"].is_null(), "{store}");
    let on_disk = Server::start(tempfile::tempdir().unwrap(), &orders(&function, ""), &["--store", "./kept"]);
    let store = &on_disk.get("/v1/server").await["store"];
    assert_eq!(text(store, "place"), "./kept");
    assert_ne!(text(store, "tier"), "B", "a directory is on a disk, or in memory: {store}");
    let bytes = |name: &str| store[name].as_u64().unwrap_or_else(|| panic!("no `{name}` in {store}"));
    assert!(bytes("used_bytes") > 0 && bytes("left_bytes") > bytes("used_bytes"), "{store}");
    assert!(store["days_to_full"].is_null(), "nobody can know that yet: {store}");
    let got = on_disk.ask_with(&Method::GET, "/metrics", &[], "").await;
    let metrics = got.text();
    // It may have grown meanwhile.
    let used = metrics.lines().find_map(|it| it.strip_prefix("semel_disk_used_bytes ")?.parse::<u64>().ok());
    assert!(used >= Some(bytes("used_bytes")), "{metrics}");
}

/// What is dropped where retry is off is no dead letter: it is not listed as one, and cannot be redriven.
#[tokio::test(flavor = "multi_thread")]
async fn errors_count_as_dead_what_is_listed_as_dead() {
    let function = picky().await;
    let server =
        Server::with(&format!("[[function]]\nname = \"orders\"\nurl = \"http://{}/\"\n", function.address));
    server.event("dropped", r#"{"late": true}"#).await;
    server.why_when("dropped", |it| it["execution"]["reason"] == "dropped").await;
    server.event("refused", "{}").await;
    server.why_when("refused", |it| it["execution"]["reason"] == "fatal").await;
    let errors = async |query: &str| {
        let found = server.get(&format!("/v1/errors{query}")).await["errors"].as_array().unwrap().clone();
        found
            .iter()
            .map(|it| (it["dead"].as_u64().unwrap(), text(it, "example").to_owned()))
            .collect::<Vec<_>>()
    };
    let fatal = "answered 422 Unprocessable Entity: order 17 is bad".to_owned();
    assert_eq!(errors("").await, [(1, fatal)]);
    assert_eq!(server.get("/v1/ledger").await["total"]["dead"], 1);
    assert_eq!(errors("?reason=dropped").await.len(), 1, "whoever names a reason wants what failed for it");
}
