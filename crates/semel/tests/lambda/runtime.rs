//! Functions in processes of their own, run by the real `lambda_runtime`, which asks a local runtime API.
//!
//! A child tells what it does through a pipe, as it does it, so that the oracle is outside of what is killed.

use lambda_runtime::LambdaEvent;
use semel::{
    HandlerError, OnBusy, Once,
    lambda::{self, NamedError, Pick},
};
use semel_testkit::lambda::{Answer, Invocation, RuntimeApi};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    fmt::Display,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

const CHILD: &str = "SEMEL_LAMBDA_CHILD";
/// How long a child may take to say something before the test has failed: it shares its cores with compilers.
const SAY_MAX: Duration = Duration::from_mins(1);

/// Does nothing, unless it was started by a test below.
#[test]
fn child() {
    let Ok(role) = std::env::var(CHILD) else { return };
    let (role, place) = role.split_once('@').unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // A killed process leaves a store that opens.
        let embedded = async || Once::builder().on_busy(OnBusy::Reject).open(place).await.unwrap();
        match role {
            "orders" => orders(embedded().await).await,
            "messages" => messages(embedded().await).await,
            "requests" => requests(embedded().await).await,
            "rule" => details(embedded().await, Pick::event_bridge()).await,
            "pointer" => details(embedded().await, Pick::pointer("/detail/order~1id").unwrap()).await,
            #[cfg(feature = "jmespath")]
            "envelopes" => envelopes(embedded().await).await,
            #[cfg(feature = "dynamodb")]
            "dynamodb" => orders(crate::dynamodb::once_at(place)).await,
            other => panic!("no role is called {other}"),
        }
    });
}

#[derive(Deserialize)]
struct Order {
    id: String,
    #[serde(default)]
    wish: String,
}

async fn orders(once: Once) {
    let function =
        lambda::events(once, Pick::event_id()).handler(async |event: LambdaEvent<Order>, lease| {
            let Order { id, wish } = event.payload;
            tell(&format!("run {id} attempt {}", lease.attempt()));
            let charge = lease.effect("charge").at_most_once();
            charge
                .run(async || {
                    tell(&format!("charge {id}"));
                    Ok::<_, HandlerError>(())
                })
                .await?;
            match wish.as_str() {
                "hang" if lease.attempt() == 1 => {
                    tell("hang");
                    std::future::pending().await
                }
                "panic" => panic!("as it was wished"),
                "fail" if lease.attempt() == 1 => Err("not now".into()),
                "decline" => Err(HandlerError::fatal(NamedError::new("CardDeclined", "the bank said no"))),
                // Seeded, and nothing that could be compressed.
                "flood" => {
                    let mut dice = fastrand::Rng::with_seed(7);
                    Ok((0..7_000_000).map(|_| dice.alphanumeric()).collect())
                }
                _ => Ok(format!("{id} after {}", lease.attempt())),
            }
        });
    lambda_runtime::run(function).await.unwrap();
}

#[derive(Deserialize)]
struct Message {
    body: String,
}

async fn messages(once: Once) {
    let function = lambda::records(once).handler(async |record: LambdaEvent<Message>, lease| {
        tell(&format!("run {} attempt {}", record.payload.body, lease.attempt()));
        match record.payload.body.as_str() {
            "fail" if lease.attempt() == 1 => Err("not now".into()),
            _ => Ok(()),
        }
    });
    lambda_runtime::run(function).await.unwrap();
}

/// Events of EventBridge.
async fn details(once: Once, key: Pick) {
    let function = lambda::events(once, key).handler(async |event: LambdaEvent<Value>, lease| {
        let detail = &event.payload["detail"];
        tell(&format!("run {} {detail} attempt {}", event.payload["source"], lease.attempt()));
        if detail["fails"] == true && lease.attempt() == 1 {
            return Err("not now".into());
        }
        Ok(json!({"done": detail, "attempt": lease.attempt()}))
    });
    lambda_runtime::run(function).await.unwrap();
}

async fn requests(once: Once) {
    let function = lambda::api(once).handler(async |event: LambdaEvent<Value>, lease| {
        tell(&format!("run {} attempt {}", event.payload["body"], lease.attempt()));
        let status = if lease.attempt() == 1 { 503 } else { 201 };
        Ok(json!({"statusCode": status, "headers": {"location": "/orders/1"}, "body": "made"}))
    });
    lambda_runtime::run(function).await.unwrap();
}

/// Orders that are JSON in a text.
#[cfg(feature = "jmespath")]
async fn envelopes(once: Once) {
    let key = Pick::jmespath("powertools_json(body).[user, order]").unwrap();
    let function = lambda::events(once, key).handler(async |event: LambdaEvent<Message>, lease| {
        tell(&format!("run {} attempt {}", event.payload.body, lease.attempt()));
        Ok(lease.attempt())
    });
    lambda_runtime::run(function).await.unwrap();
}

/// One write of one line, straight to the pipe: it is told even if the process dies right after.
fn tell(line: &str) {
    std::io::stderr().write_all(format!("told {line}\n").as_bytes()).expect("the parent listens");
}

/// A function in a process of its own; it ends with this.
pub(crate) struct Process {
    child: Child,
    said: mpsc::Receiver<String>,
}

impl Process {
    /// One with this role, whose records are in this place.
    pub(crate) fn start(api: &RuntimeApi, role: &str, place: impl Display) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["runtime::child", "--exact", "--nocapture"])
            .env(CHILD, format!("{role}@{place}"))
            .envs(api.environment("orders"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                match line.strip_prefix("told ") {
                    Some(line) => drop(say.send(line.to_owned())),
                    None => eprintln!("child: {line}"),
                }
            }
        });
        Self { child, said }
    }

    /// The next thing that it says.
    pub(crate) fn says(&self) -> String {
        self.said.recv_timeout(SAY_MAX).expect("the function says something")
    }

    /// Kills it as nothing can be survived; gives what it said until then, and nobody asked for.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.end();
        self.said.iter().collect()
    }

    fn end(&mut self) {
        // It may be dead already.
        let _dead = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) fn response(json: &str) -> Answer {
    Answer::Response(json.to_owned())
}

fn error(error_type: &str, message: &str) -> Answer {
    Answer::Error { error_type: error_type.to_owned(), message: message.to_owned() }
}

pub(crate) fn order(id: &str, wish: &str) -> Invocation {
    let event = format!(r#"{{"id": "{id}", "wish": "{wish}"}}"#);
    Invocation::new(event).timeout(Duration::from_mins(5))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_runtime_gets_each_answer_once_and_again() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let process = Process::start(&api, "orders", directory.path().display());
    for _delivery in 0..2 {
        assert_eq!(api.invoke(order("1", "")).await, response(r#""1 after 1""#));
    }
    assert_eq!(api.invoke(order("2", "fail")).await, error("HandlerError", "not now"));
    for _delivery in 0..2 {
        assert_eq!(api.invoke(order("2", "fail")).await, response(r#""2 after 2""#), "Lambda retried");
    }
    for _delivery in 0..3 {
        assert_eq!(api.invoke(order("3", "decline")).await, error("CardDeclined", "the bank said no"));
    }
    assert_eq!(api.invoke(r#"{"id": "3", "wish": "other"}"#).await.error_type(), "Semel.Mismatch");
    assert_eq!(api.invoke(r#"{"wish": ""}"#).await.error_type(), "Semel.KeyRequired");
    assert_eq!(api.invoke(r#"{"id": 4}"#).await.error_type(), "Semel.InvalidEvent");
    let expected = [
        "run 1 attempt 1",
        "charge 1",
        "run 2 attempt 1",
        "charge 2",
        "run 2 attempt 2",
        "run 3 attempt 1",
        "charge 3",
    ];
    assert_eq!(process.kill(), expected);
    assert!(api.init_errors().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_killed_half_way_charges_once() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let process = Process::start(&api, "orders", directory.path().display());
    let invocation = order("1", "hang");
    let mut sent = api.send(invocation.clone());
    sent.taken().await;
    assert_eq!([process.says(), process.says(), process.says()], ["run 1 attempt 1", "charge 1", "hang"]);
    assert!(process.kill().is_empty());

    // Lambda retries, in another process. The store was the dead one's, so nobody has to wait for its lease.
    let process = Process::start(&api, "orders", directory.path().display());
    for _delivery in 0..2 {
        assert_eq!(api.invoke(invocation.clone()).await, response(r#""1 after 2""#));
    }
    assert_eq!(process.kill(), ["run 1 attempt 2"], "the charge is not repeated");

    let process = Process::start(&api, "orders", directory.path().display());
    assert_eq!(api.invoke(invocation).await, response(r#""1 after 2""#), "and a third one remembers");
    assert!(process.kill().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_crash_and_the_process_goes_on() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let process = Process::start(&api, "orders", directory.path().display());
    assert!(
        matches!(api.invoke(order("1", "panic")).await, Answer::Error { message, .. } if message.contains("panicked"))
    );
    assert_eq!(api.invoke(order("1", "panic")).await.error_type(), "Semel.InProgress", "its lease stands");
    assert_eq!(api.invoke(order("2", "")).await, response(r#""2 after 1""#));
    assert_eq!(process.kill(), ["run 1 attempt 1", "charge 1", "run 2 attempt 1", "charge 2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_lambda_does_not_take_is_not_run_again_for() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let process = Process::start(&api, "orders", directory.path().display());
    assert_eq!(api.invoke(order("1", "flood")).await.error_type(), "Function.ResponseSizeTooLarge");
    assert_eq!(api.invoke(order("1", "flood")).await.error_type(), "Semel.NotKept");
    assert_eq!(process.kill(), ["run 1 attempt 1", "charge 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_answered_in_parts() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let process = Process::start(&api, "messages", directory.path().display());
    let message = |id: &str, body: &str| {
        format!(r#"{{"messageId": "{id}", "body": "{body}", "eventSource": "aws:sqs"}}"#)
    };
    let batch = format!(
        r#"{{"Records": [{}, {}, {}]}}"#,
        message("1", "one"),
        message("2", "fail"),
        message("3", "two")
    );
    let answer = api.invoke(batch.as_str()).await;
    assert_eq!(answer, response(r#"{"batchItemFailures":[{"itemIdentifier":"2"}]}"#));
    assert_eq!(api.invoke(batch.as_str()).await, response(r#"{"batchItemFailures":[]}"#));
    assert_eq!(
        process.kill(),
        ["run one attempt 1", "run fail attempt 1", "run two attempt 1", "run fail attempt 2"]
    );
}

/// What `what_follows_a_failed_message…` shows within one process, from one process to the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_queue_keeps_its_order_also_in_the_process_that_comes_after() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let message = |id: &str, group: &str, body: &str| {
        json!({
            "messageId": id, "body": body, "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders.fifo",
            "attributes": {"ApproximateReceiveCount": "1", "MessageGroupId": group},
        })
    };
    let messages = [
        message("1", "a", "one"),
        message("2", "b", "fail"),
        message("3", "b", "three"),
        message("4", "a", "four"),
        message("5", "b", "five"),
    ];
    let failed = |ids: &[&str]| {
        let failures: Vec<_> = ids.iter().map(|id| format!(r#"{{"itemIdentifier":"{id}"}}"#)).collect();
        response(&format!(r#"{{"batchItemFailures":[{}]}}"#, failures.join(",")))
    };
    let process = Process::start(&api, "messages", directory.path().display());
    let batch = json!({"Records": messages}).to_string();
    assert_eq!(api.invoke(batch.as_str()).await, failed(&["2", "3", "5"]));
    assert_eq!(process.kill(), ["run one attempt 1", "run fail attempt 1", "run four attempt 1"]);

    // SQS gives again what was listed, and the rest, too, if the answer was lost on its way.
    let process = Process::start(&api, "messages", directory.path().display());
    assert_eq!(api.invoke(batch.as_str()).await, failed(&[]));
    assert_eq!(process.kill(), ["run fail attempt 2", "run three attempt 1", "run five attempt 1"]);
}

/// An event as EventBridge gives it to a function.
fn of_bus(source: &str, id: &str, detail: &Value) -> Invocation {
    let event = json!({
        "version": "0", "id": id, "detail-type": "order.created", "source": source, "account": "123456789012",
        "time": "2026-01-01T00:00:00Z", "region": "eu-central-1", "resources": [], "detail": detail,
    });
    Invocation::new(event.to_string()).timeout(Duration::from_mins(5))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_eventbridge_is_known_by_its_source_and_id() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let detail = json!({"order/id": 7});
    let done = response(r#"{"attempt":1,"done":{"order/id":7}}"#);
    let process = Process::start(&api, "rule", directory.path().display());
    for _delivery in 0..2 {
        assert_eq!(api.invoke(of_bus("shop", "6a7e", &detail)).await, done);
    }
    assert_eq!(api.invoke(of_bus("shop", "95df", &detail)).await, done, "another event");
    assert_eq!(api.invoke(of_bus("depot", "6a7e", &detail)).await, done, "of another source");
    let other = of_bus("shop", "6a7e", &json!({"order/id": 8}));
    assert_eq!(api.invoke(other).await.error_type(), "Semel.Mismatch");
    assert_eq!(api.invoke(r#"{"detail": {}}"#).await.error_type(), "Semel.KeyRequired");
    let runs = ["shop", "shop", "depot"].map(|it| format!(r#"run "{it}" {{"order/id":7}} attempt 1"#));
    assert_eq!(process.kill(), runs);
    let process = Process::start(&api, "rule", directory.path().display());
    assert_eq!(api.invoke(of_bus("shop", "6a7e", &detail)).await, done);
    assert!(process.kill().is_empty(), "the process that comes after remembers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_json_pointer_names_an_operation_whose_event_must_then_be_the_same() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let process = Process::start(&api, "pointer", directory.path().display());
    let detail = json!({"fails": true, "order/id": 7});
    assert_eq!(api.invoke(of_bus("shop", "1", &detail)).await, error("HandlerError", "not now"));
    let done = response(r#"{"attempt":2,"done":{"fails":true,"order/id":7}}"#);
    for _delivery in 0..2 {
        assert_eq!(api.invoke(of_bus("shop", "1", &detail)).await, done, "Lambda retried");
    }
    let text = json!({"order/id": "7"});
    let other = response(r#"{"attempt":1,"done":{"order/id":"7"}}"#);
    assert_eq!(api.invoke(of_bus("shop", "2", &text)).await, other, "a text is no number");
    assert_eq!(api.invoke(of_bus("shop", "3", &detail)).await.error_type(), "Semel.Mismatch");
    for missing in [json!({}), json!({"order": {"id": 7}}), json!({"order/id": null})] {
        assert_eq!(api.invoke(of_bus("shop", "4", &missing)).await.error_type(), "Semel.KeyRequired");
    }
    assert_eq!(process.kill().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_answered_in_the_gateways_words_once_and_again() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let process = Process::start(&api, "requests", directory.path().display());
    let request = |key: &str, body: &str| {
        let headers = json!({"idempotency-key": key, "authorization": "Bearer ann"});
        json!({
            "version": "2.0", "routeKey": "POST /orders", "rawPath": "/orders", "rawQueryString": "", "headers": headers,
            "requestContext": {"http": {"method": "POST", "path": "/orders"}}, "body": body, "isBase64Encoded": false
        })
        .to_string()
    };
    let send = async |request: String| {
        let Answer::Response(said) = api.invoke(request.as_str()).await else { panic!("it answers") };
        let said: Value = serde_json::from_str(&said).unwrap();
        (said["statusCode"].as_u64().unwrap(), said["headers"]["idempotency-replayed"] == "true")
    };
    assert_eq!(send(request("k", "1")).await, (503, false), "it says to try again");
    assert_eq!(send(request("k", "1")).await, (201, false));
    assert_eq!(send(request("k", "1")).await, (201, true));
    assert_eq!(send(request("k", "2")).await, (422, false), "another request");
    assert_eq!(send(request("", "1")).await, (400, false), "no key");
    assert_eq!(process.kill(), [r#"run "1" attempt 1"#, r#"run "1" attempt 2"#]);
}

#[cfg(feature = "jmespath")]
#[tokio::test(flavor = "multi_thread")]
async fn a_key_within_a_text_is_found_and_outlives_the_process() {
    let (api, directory) = (RuntimeApi::start().await, tempfile::tempdir().unwrap());
    let order = json!({"body": r#"{"user":"ann","order":1}"#}).to_string();
    let other = json!({"body": r#"{"user":"bob","order":1}"#}).to_string();
    let process = Process::start(&api, "envelopes", directory.path().display());
    for event in [&order, &order, &other] {
        assert_eq!(api.invoke(event.as_str()).await, response("1"));
    }
    assert_eq!(api.invoke(r#"{"body": "{}"}"#).await.error_type(), "Semel.KeyRequired");
    assert_eq!(process.kill().len(), 2, "ann's once, and bob's");
    let process = Process::start(&api, "envelopes", directory.path().display());
    assert_eq!(api.invoke(order.as_str()).await, response("1"));
    assert!(process.kill().is_empty());
}
