//! Events in, functions called.

use super::support::{Server, command, event, full, orders, problem, read, told};
use crate::support::{Asked, Client, Proxy, Upstream, answer, semel, soon};
use http::{Request, Version};
use insta::assert_snapshot;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn three_deliveries_are_one_call() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let first = server.event("evt-1", r#"{"order":42}"#).await;
    assert_eq!(first.status, 202, "{first:?}");
    let receipt = read(&first);
    assert_eq!(
        (&receipt["id"], &receipt["source"], &receipt["duplicate"]),
        (&json!("evt-1"), &json!("/shop"), &json!(false))
    );
    assert_eq!(receipt["functions"][0]["function"], "orders");
    function.called(1).await;
    for _ in 0..2 {
        let again = server.event("evt-1", r#"{"order":42}"#).await;
        assert_eq!((again.status.as_u16(), &read(&again)["duplicate"]), (200, &json!(true)), "{again:?}");
        let original = &read(&again)["functions"][0];
        assert_eq!(original["execution"], receipt["functions"][0]["execution"]);
        assert!(original["status"].is_string() && original["since"].is_string(), "{again:?}");
    }
    let other = server.event("evt-2", r#"{"order":43}"#).await;
    assert_eq!(other.status, 202);
    function.called(2).await;
    assert_eq!(function.calls(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_is_called_with_the_event_and_which_attempt_it_is() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    assert_eq!(server.event("evt-1", r#"{"order":42}"#).await.status, 202);
    let asked = function.heard(1).await.remove(0);
    let header = |name: &str| asked.header(name).join(",");
    assert_eq!(asked.uri.path(), "/orders");
    assert_eq!((header("ce-id").as_str(), header("ce-type").as_str()), ("evt-1", "order.created"));
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(&asked.body[..], br#"{"order":42}"#);
    assert_eq!(header("semel-attempt"), "1");
    for name in ["idempotency-key", "semel-fence", "semel-deadline", "traceparent"] {
        assert!(!header(name).is_empty(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_made_again_and_the_event_is_done_once() {
    let function = Upstream::start(async |asked: Asked| {
        let is_first = asked.header("semel-attempt") == ["1"];
        answer(if is_first { 503 } else { 200 }, "")
    })
    .await;
    let server = Server::with(&orders(&function, "retry = \"immediate\"\n"));
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    function.called(2).await;
    soon("the end", async {
        while read(&server.event("evt-1", "{}").await)["functions"][0]["status"] != "COMPLETED" {}
    })
    .await;
    assert_eq!(function.calls(), 2);
    let keys: Vec<_> = function.asked().iter().map(|it| it.header("idempotency-key").join("")).collect();
    assert_eq!(keys[0], keys[1], "the key is the same over all attempts");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_three_modes_of_cloudevents_are_one_event() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    assert_eq!(server.event("evt-1", r#"{"order":42}"#).await.status, 202);
    let event = r#"{"specversion":"1.0","id":"evt-1","source":"/shop","type":"order.created","datacontenttype":"application/json","data":{"order":42}}"#;
    let send = async |content_type: &str, body: String| {
        let request = Request::post(server.program.url("/events")).header("content-type", content_type);
        server.send(request.body(full(body)).unwrap()).await
    };
    let structured = send("Application/CloudEvents+JSON; charset=utf-8", event.to_owned()).await;
    assert_eq!(
        (structured.status.as_u16(), &read(&structured)["duplicate"]),
        (200, &json!(true)),
        "{structured:?}"
    );
    let batch =
        send("application/cloudevents-batch+json", format!("[{event},{}]", event.replace("evt-1", "evt-2")))
            .await;
    assert_eq!(batch.status, 202, "{batch:?}");
    let items = read(&batch);
    assert_eq!((&items[0]["status"], &items[0]["duplicate"]), (&json!(200), &json!(true)), "{items}");
    assert_eq!((&items[1]["status"], &items[1]["duplicate"]), (&json!(202), &json!(false)), "{items}");
    function.called(2).await;
    let empty = send("application/cloudevents-batch+json", "[]".to_owned()).await;
    assert_eq!((empty.status.as_u16(), empty.text()), (200, "[]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_in_which_one_item_is_wrong_is_no_success_and_the_others_are_kept() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let event = |id: &str| format!(r#"{{"specversion":"1.0","id":"{id}","source":"/shop","type":"t"}}"#);
    let body = format!("[{},{{\"specversion\":\"1.0\"}},{}]", event("a"), event("b"));
    let request = || {
        Request::post(server.program.url("/events"))
            .header("content-type", "application/cloudevents-batch+json")
            .body(full(body.clone()))
            .unwrap()
    };
    let got = server.send(request()).await;
    assert_eq!(told(&got), (422, "events-refused".to_owned()), "{got:?}");
    let statuses: Vec<_> =
        read(&got)["items"].as_array().unwrap().iter().map(|it| it["status"].clone()).collect();
    assert_eq!(statuses, [202, 400, 202]);
    function.called(2).await;
    let again = server.send(request()).await;
    let statuses: Vec<_> =
        read(&again)["items"].as_array().unwrap().iter().map(|it| it["status"].clone()).collect();
    assert_eq!(statuses, [200, 400, 200]);
    assert_eq!(function.calls(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_functions_says_how_to_add_one() {
    let server = Server::with("");
    let got = server.event("evt-1", "{}").await;
    assert_eq!(told(&got), (422, "no-function".to_owned()));
    assert_snapshot!(got.text());
    server
        .program
        .event("there are no functions: every event is refused; add one with `--function NAME=URL`");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_may_be_typed() {
    let function = Upstream::echo().await;
    let directory = tempfile::tempdir().unwrap();
    let url = format!("orders=http://{}/typed", function.address);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--log",
        "json",
        "--store",
        "memory:",
        "--function",
        &url,
    ]);
    let program = Proxy::spawn(command.current_dir(directory.path()));
    let got = Client::new().send(event(&program, "evt-1").body(full("{}")).unwrap()).await;
    assert_eq!(got.status, 202, "{got:?}");
    function.called(1).await;
}

#[test]
fn what_cannot_be_meant_is_told_with_a_remedy() {
    let said = |arguments: &[&str]| {
        let directory = tempfile::tempdir().unwrap();
        let ended = semel(directory.path(), arguments);
        format!("exit code {}\n{}{}", ended.code.unwrap(), ended.stdout, ended.stderr)
    };
    let all = [
        said(&["serve", "--function", "orders"]),
        said(&["serve", "--function", "orders=ftp://a"]),
        said(&["serve", "--function", "orders=http://10.0.0.1/"]),
        said(&["serve", "--function", "a=http://127.0.0.1:1/", "--function", "a=http://127.0.0.1:2/"]),
        said(&["serve", "--retry", "gen2"]),
        said(&["serve", "--function", "a=http://127.0.0.1:1/", "--retry", "always"]),
        said(&["serve", "--listen", "0.0.0.0:8787", "--store", "memory:", "--log", "off"]),
        said(&["serve", "--store", "redis://ann:s3cret@db", "--log", "off"]),
        said(&["serve", "--config", "missing.toml"]),
    ]
    .join("\n\n");
    assert!(!all.contains("s3cret"), "{all}");
    assert_snapshot!(all);
}

#[test]
fn help_has_examples() {
    let directory = tempfile::tempdir().unwrap();
    assert_snapshot!(semel(directory.path(), &["serve", "--help"]).stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_name_with_another_content_is_not_run() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    assert_eq!(server.event("evt-1", r#"{"order":42}"#).await.status, 202);
    let other = server.event("evt-1", r#"{"order":43}"#).await;
    assert_eq!(other.status, 200, "{other:?}");
    assert_eq!(read(&other)["functions"][0]["mismatch"], true, "{other:?}");
    let same = server.event("evt-1", r#"{ "order": 42 }"#).await;
    assert_eq!(read(&same)["functions"][0]["mismatch"], json!(null), "JSON is compared as JSON");
    let strict = Server::with(&orders(&function, "strict = true\n"));
    assert_eq!(strict.event("evt-2", "1").await.status, 202);
    let refused = strict.event("evt-2", "2").await;
    assert_eq!((refused.status.as_u16(), problem(&refused).as_str()), (422, "mismatch"));
    function.called(2).await;
    assert_eq!(function.calls(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_take_what_their_filters_say_and_sources_reach_what_they_may() {
    let (orders, audit) = (Upstream::echo().await, Upstream::echo().await);
    let server = Server::with(&format!(
        "[[function]]\nname = \"orders\"\nurl = \"http://{}/\"\nfilter = {{ prefix = {{ type = \"order.\" }} }}\n\
         [[function]]\nname = \"audit\"\nurl = \"http://{}/\"\n\
         [[source]]\nname = \"audited\"\nauth = \"none\"\nfunctions = \"audit\"\n",
        orders.address, audit.address
    ));
    let names = |got: &crate::support::Got| -> Vec<String> {
        let all = read(got)["functions"].as_array().unwrap().clone();
        all.iter().map(|it| it["function"].as_str().unwrap().to_owned()).collect()
    };
    let event = |id: &str, kind: &str| {
        json!({"specversion": "1.0", "id": id, "source": "/shop", "type": kind}).to_string()
    };
    let both = server.json("/events", &[], event("1", "order.created")).await;
    assert_eq!(names(&both), ["orders", "audit"], "{both:?}");
    let one = server.json("/events", &[], event("2", "user.created")).await;
    assert_eq!(names(&one), ["audit"]);
    let reached = server.json("/sources/audited", &[], event("3", "order.created")).await;
    assert_eq!(names(&reached), ["audit"]);
    tokio::join!(audit.called(3), orders.called(1));
    assert_eq!((orders.calls(), audit.calls()), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_no_function_takes_is_no_failure_of_its_sender() {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, "filter = { type = \"order.paid\" }\n"));
    let got = server.event("evt-1", "{}").await;
    assert_eq!((got.status.as_u16(), &read(&got)["functions"]), (200, &json!([])), "{got:?}");
    assert!(server.get("/metrics").await.text().contains("\nsemel_ingest_events_unmatched_total 1\n"));
}

/// What an event says of its own end (`expirytime`) holds for its first attempt and for the later ones.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_of_no_more_use_is_not_tried() {
    let function = Upstream::start(async |_: Asked| answer(503, "")).await;
    let server = Server::with(&orders(&function, "retry = \"gen2\"\nbackoff = [\"1h\"]\n"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let at = |seconds: u64| semel_events::event::EventTime::from_unix_seconds(now / 1_000 + seconds).unwrap();
    let send = async |id: &str, expiry: &str| {
        let sent = event(&server.program, id).header("ce-expirytime", expiry).body(full("{}")).unwrap();
        let got = server.send(sent).await;
        assert_eq!(got.status, 202, "{got:?}");
    };
    let stands = async |id: &str, status: &str, reason: Option<&str>| {
        let path = format!("/v1/executions?name={id}");
        soon("its end", async {
            loop {
                let found = read(&server.get(&path).await)["executions"][0].clone();
                if found["status"] == status && found["reason"].as_str() == reason {
                    return;
                }
            }
        })
        .await;
    };
    send("late", "2020-01-01T00:00:00Z").await;
    stands("late", "FAILED", Some("too_old")).await;
    assert_eq!(function.calls(), 0, "it was too late for the first attempt");
    // One attempt is in time, and the next one, in an hour, is not.
    send("soon", at(1_800).text()).await;
    stands("soon", "FAILED", Some("too_old")).await;
    assert_eq!(function.calls(), 1);
    send("later", at(86_400).text()).await;
    stands("later", "PENDING", None).await;
    send("never", "whenever").await;
    stands("never", "PENDING", None).await;
    assert_eq!(function.heard(3).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_ones_own_names_events_and_its_absence_is_told() {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, "key = [\"/data/order\", \"header:x-shop\"]\n"));
    let send = async |id: &str, shop: Option<&str>, data: &str| {
        let mut request = event(&server.program, id);
        if let Some(shop) = shop {
            request = request.header("x-shop", shop);
        }
        server.send(request.body(full(data.to_owned())).unwrap()).await
    };
    assert_eq!(send("evt-1", Some("a"), r#"{"order":1}"#).await.status, 202);
    assert_eq!(send("evt-2", Some("a"), r#"{"order":1}"#).await.status, 200, "another id, the same order");
    assert_eq!(send("evt-3", Some("b"), r#"{"order":1}"#).await.status, 202, "another shop");
    assert_eq!(told(&send("evt-4", None, "{}").await), (422, "key-missing".to_owned()));
    function.called(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_can_be_a_jmespath() {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, "key = \"jmespath:[data.order, join('-', data.lines)]\"\n"));
    assert_eq!(server.event("evt-1", r#"{"order":1,"lines":["a","b"]}"#).await.status, 202);
    let again = server.event("evt-2", r#"{"lines":["a","b"],"order":1}"#).await;
    assert_eq!(again.status, 200, "another id, the same order: {again:?}");
    assert_eq!(server.event("evt-3", r#"{"order":1,"lines":["a","c"]}"#).await.status, 202, "other lines");
    let refused = server.event("evt-4", r#"{"order":1,"lines":[7]}"#).await;
    assert_eq!(refused.status, 422, "no text can be joined: {refused:?}");
    function.called(2).await;
}

/// A proxy of the environment is used if the file says so, and not otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_the_environment_is_used_where_it_was_asked_for_and_nowhere_else() {
    let (proxy, function) = (Upstream::echo().await, Upstream::echo().await);
    let directory = tempfile::tempdir().unwrap();
    let far = "[[function]]\nname = \"far\"\nurl = \"http://orders.example.com/far\"\n";
    for (file, calls) in
        [(orders(&function, ""), (0, 1)), (format!("{far}[server]\nproxy = \"environment\"\n"), (1, 1))]
    {
        std::fs::write(directory.path().join("semel.toml"), file).unwrap();
        let mut command = command(directory.path(), &["--store", "memory:"]);
        command
            .env("HTTP_PROXY", format!("http://{}", proxy.address))
            .env_remove("NO_PROXY")
            .env_remove("no_proxy");
        let program = Proxy::spawn(&mut command);
        let got = Client::new().send(event(&program, "evt-1").body(full("{}")).unwrap()).await;
        assert_eq!(got.status, 202, "{got:?}");
        if calls.0 == 0 {
            function.called(1).await;
        } else {
            proxy.called(1).await;
        }
        assert_eq!((proxy.calls(), function.calls()), calls);
    }
    assert_eq!(proxy.heard(1).await[0].uri, "http://orders.example.com/far");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_to_a_function_is_signed() {
    let function = Upstream::echo().await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let server = Server::with(&orders(&function, &format!("secret = \"{secret}\"\n")));
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    let asked = function.heard(1).await.remove(0);
    let webhooks = semel_events::auth::standard_webhooks::StandardWebhooks::new([secret]).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    webhooks.verify(&asked.headers, &asked.body, semel_core::time::Timestamp::from_millis(now)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_speaks_http_2_is_spoken_to_so() {
    let function = Upstream::echo().await;
    for (more, version) in [("", Version::HTTP_11), ("http2 = true\n", Version::HTTP_2)] {
        let server = Server::with(&orders(&function, more));
        assert_eq!(server.event("evt-1", "{}").await.status, 202);
        let calls = if version == Version::HTTP_2 { 2 } else { 1 };
        assert_eq!(function.heard(calls).await.pop().unwrap().version, version);
    }
}
