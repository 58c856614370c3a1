//! Functions behind API Gateway: `Idempotency-Key`, in the gateway's words.

use crate::support::{Count, context, invoke, invoke_with, settle, world};
use lambda_runtime::LambdaEvent;
use semel::{
    HandlerError, Once, Resolution,
    http::Caller,
    lambda::{self, Api, Function, Lambda, NamedError},
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::Notify;

/// A request, in each of the gateways' forms.
#[derive(Clone)]
struct Request {
    method: &'static str,
    path: &'static str,
    headers: Vec<(&'static str, String)>,
    context: Value,
    query: &'static str,
    body: String,
    is_base64: bool,
}

fn post(key: &str) -> Request {
    Request {
        method: "POST",
        path: "/orders/7",
        headers: vec![
            ("Idempotency-Key", key.to_owned()),
            ("Authorization", "Bearer ann".to_owned()),
            ("Content-Type", "application/json".to_owned()),
        ],
        context: json!({}),
        query: "",
        body: r#"{"cents": 1200}"#.to_owned(),
        is_base64: false,
    }
}

impl Request {
    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(it, _)| *it != name);
        self
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// As a REST API sends it.
    fn rest(&self) -> String {
        let mut event = self.balanced_one();
        event["resource"] = "/orders/{id}".into();
        event["requestContext"]["requestId"] = format!("{:?}", std::time::Instant::now()).into();
        let mut multi: Value = json!({});
        for (name, value) in &self.headers {
            match multi.get_mut(name) {
                Some(values) => values.as_array_mut().unwrap().push(value.as_str().into()),
                None => multi[name] = json!([value]),
            }
        }
        event["multiValueHeaders"] = multi;
        event.to_string()
    }

    fn balanced_one(&self) -> Value {
        let headers: serde_json::Map<_, _> =
            self.headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
        json!({
            "httpMethod": self.method, "path": self.path, "headers": headers, "requestContext": self.context,
            "queryStringParameters": {"q": self.query}, "body": self.body, "isBase64Encoded": self.is_base64
        })
    }

    /// As a load balancer sends it, to a target group with lists of headers or without.
    fn balanced(&self, is_multi: bool) -> String {
        let mut event = self.balanced_one();
        if is_multi {
            let headers = event.as_object_mut().unwrap().remove("headers").unwrap();
            let headers = headers
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| (name.clone(), json!([value])))
                .collect();
            event["multiValueHeaders"] = Value::Object(headers);
        }
        event["requestContext"]["elb"] =
            json!({"targetGroupArn": "arn:aws:elasticloadbalancing:eu-central-1:1:targetgroup/orders/1"});
        event.to_string()
    }

    /// As an HTTP API or a function URL sends it: names in small letters, repeats joined by commas.
    fn http(&self) -> String {
        let mut headers = serde_json::Map::new();
        for (name, value) in &self.headers {
            let entry = headers.entry(name.to_ascii_lowercase()).or_insert_with(|| "".into());
            let before = entry.as_str().unwrap();
            *entry =
                if before.is_empty() { value.as_str().into() } else { format!("{before},{value}").into() };
        }
        let mut context = self.context.clone();
        context["http"] = json!({"method": self.method, "path": self.path, "sourceIp": "192.0.2.1"});
        context["timeEpoch"] = std::process::id().into();
        json!({
            "version": "2.0", "routeKey": "POST /orders/{id}", "rawPath": self.path, "rawQueryString": self.query,
            "headers": headers, "requestContext": context, "body": self.body, "isBase64Encoded": self.is_base64
        })
        .to_string()
    }
}

/// An answer, taken apart.
#[derive(PartialEq, Debug)]
struct Response {
    status: u64,
    headers: Value,
    body: String,
}

async fn send(function: &Function<'_, Api>, event: &str) -> Response {
    let answer: Value = serde_json::from_str(&invoke(function, event).await.unwrap()).unwrap();
    let headers = if answer["headers"].is_null() { &answer["multiValueHeaders"] } else { &answer["headers"] };
    Response {
        status: answer["statusCode"].as_u64().unwrap(),
        headers: headers.clone(),
        body: answer["body"].as_str().unwrap_or_default().to_owned(),
    }
}

/// A problem's slug, checked to be one.
#[track_caller]
fn problem(response: &Response) -> (u64, String) {
    let content_type =
        response.headers["content-type"].as_str().or_else(|| response.headers["content-type"][0].as_str());
    assert_eq!(content_type, Some("application/problem+json"), "{response:?}");
    let body: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(body["status"], response.status);
    let slug =
        body["type"].as_str().unwrap().strip_suffix("/index.html").unwrap().rsplit('/').next().unwrap();
    (response.status, slug.to_owned())
}

/// Answers 201 with the count of its runs.
fn counting(describe: Lambda<Api>, runs: &Count) -> Function<'_, Api> {
    describe.handler(async |event: LambdaEvent<Value>, _| {
        let headers = json!({
            "Content-Type": "text/plain", "ETag": "\"7\"", "Set-Cookie": "session=secret", "Date": "today", "X-Other": "x",
            "Idempotency-Replayed": "forged", "Semel-Fence": "1"
        });
        assert!(event.payload["headers"].get("semel-fence").is_none(), "only Semel says this");
        let multi = json!({"Link": ["</1>; rel=next", "</2>, </3>"], "Set-Cookie": ["a=b"]});
        let body = format!("receipt {}", runs.add());
        Ok(json!({"statusCode": 201, "headers": headers, "multiValueHeaders": multi, "cookies": ["c=d"], "body": body}))
    })
}

#[tokio::test]
async fn a_duplicate_gets_the_first_response_in_every_form() {
    let forms: [fn(&Request) -> String; 4] =
        [Request::rest, Request::http, |it| it.balanced(false), |it| it.balanced(true)];
    for (n, form) in forms.into_iter().enumerate() {
        let runs = Count::default();
        let function = counting(lambda::api(Once::memory()), &runs);
        let first = send(&function, &form(&post("k-1"))).await;
        assert_eq!((first.status, first.body.as_str()), (201, "receipt 1"));
        assert_eq!(first.headers["Set-Cookie"], "session=secret", "the first one gets everything");
        for own in ["Idempotency-Replayed", "Semel-Fence"] {
            assert!(first.headers.get(own).is_none(), "nobody else says {own}");
        }
        for key in ["k-1", "\"k-1\""] {
            let again = send(&function, &form(&post(key))).await;
            assert_eq!((again.status, again.body.as_str()), (201, "receipt 1"));
            assert_eq!(again.headers["ETag"], "\"7\"");
            for gone in ["Set-Cookie", "Date", "X-Other", "Semel-Fence"] {
                assert!(again.headers.get(gone).is_none(), "{gone} is replayed");
            }
        }
        assert_eq!(send(&function, &form(&post("k-2"))).await.body, "receipt 2");
        let again: Value =
            serde_json::from_str(&invoke(&function, &form(&post("k-1"))).await.unwrap()).unwrap();
        assert_eq!(again["multiValueHeaders"]["Link"], json!(["</1>; rel=next", "</2>, </3>"]));
        assert!(again["multiValueHeaders"].get("Set-Cookie").is_none() && again.get("cookies").is_none());
        let marked =
            (&again["headers"]["idempotency-replayed"], &again["multiValueHeaders"]["idempotency-replayed"]);
        let expected = if n == 3 { (&Value::Null, &json!(["true"])) } else { (&json!("true"), &Value::Null) };
        assert_eq!(marked, expected, "form {n}");
    }
}

#[tokio::test]
async fn what_is_refused_is_told_as_a_problem_and_nothing_runs() {
    let (world, runs) = (world(), Count::default());
    let function = counting(lambda::api(world.once.clone()), &runs);
    let forms: [fn(&Request) -> String; 3] = [Request::rest, Request::http, |it| it.balanced(true)];
    for form in forms {
        let refused = async |request: Request| problem(&send(&function, &form(&request)).await);
        let missing = (400, "key_missing".to_owned());
        let invalid = (400, "key_invalid".to_owned());
        assert_eq!(refused(post("x").without("Idempotency-Key")).await, missing);
        for key in ["", " ", "\"\"", "\"a", "a,b", "a b", "\u{e4}", "a\nb", &"k".repeat(256)] {
            assert_eq!(refused(post(key)).await, invalid, "{key:?}");
        }
        let nobody = send(&function, &form(&post("a").without("Authorization"))).await;
        assert_eq!(problem(&nobody), (401, "caller_missing".to_owned()));
        assert!(
            nobody.headers["www-authenticate"].to_string().contains("Bearer"),
            "a 401 says what it wants"
        );
    }
    for form in [Request::rest, Request::http] {
        let twice = post("a").with("Idempotency-Key", "a");
        assert_eq!(problem(&send(&function, &form(&twice)).await).1, "key_invalid", "two of them");
        let twice = post("a").with("idempotency-key", "a");
        assert_eq!(
            problem(&send(&function, &form(&twice)).await).1,
            "key_invalid",
            "two of them, spelt in two ways"
        );
    }
    assert_eq!((runs.get(), world.store.swaps.get()), (0, 0));
}

#[tokio::test]
async fn the_same_key_with_another_request_is_refused() {
    let forms: [fn(&Request) -> String; 2] = [Request::rest, Request::http];
    for form in forms {
        let runs = Count::default();
        let function = counting(lambda::api(Once::memory()), &runs);
        send(&function, &form(&post("k"))).await;
        let others = [
            Request { body: r#"{"cents": 1201}"#.to_owned(), ..post("k") },
            Request { path: "/orders/8", ..post("k") },
            Request { query: "q=2", ..post("k") },
            post("k").without("Content-Type"),
        ];
        for (n, other) in others.iter().enumerate() {
            let answer = send(&function, &form(other)).await;
            assert_eq!(problem(&answer), (422, "mismatch".to_owned()), "the {n}th");
        }
        let same = [
            Request { body: r#" {"cents":1200}"#.to_owned(), ..post("k") },
            Request { body: "eyJjZW50cyI6IDEyMDB9".to_owned(), is_base64: true, ..post("k") },
            post("k").with("User-Agent", "another"),
        ];
        for same in &same {
            assert_eq!(send(&function, &form(same)).await.body, "receipt 1");
        }
        assert_eq!(runs.get(), 1);
    }
}

#[tokio::test]
async fn callers_have_keys_of_their_own() {
    let runs = Count::default();
    let function = counting(lambda::api(Once::memory()), &runs);
    let by_token = |token: &str| {
        let mut request = post("k").without("Authorization");
        request.headers.push(("authorization", token.to_owned()));
        request
    };
    let known = |context: Value| Request { context, ..post("k").without("Authorization") };
    let callers = [
        by_token("Bearer ann").rest(),
        by_token("Bearer bob").rest(),
        known(json!({"authorizer": {"principalId": "ann"}})).rest(),
        known(json!({"authorizer": {"principalId": "bob"}})).rest(),
        known(json!({"authorizer": {"claims": {"iss": "pool", "sub": "ann"}}})).rest(),
        known(json!({"identity": {"userArn": "arn:aws:iam::1:user/ann", "sourceIp": "192.0.2.1"}})).rest(),
        known(json!({"authorizer": {"jwt": {"claims": {"iss": "one", "sub": "ann"}}}})).http(),
        known(json!({"authorizer": {"jwt": {"claims": {"iss": "two", "sub": "ann"}}}})).http(),
        known(json!({"authorizer": {"iam": {"userArn": "arn:aws:iam::1:user/bob"}}})).http(),
    ];
    for _try in 0..2 {
        for (n, caller) in callers.iter().enumerate() {
            assert_eq!(send(&function, caller).await.body, format!("receipt {}", n + 1));
        }
    }
    let nobody =
        known(json!({"identity": {"userArn": null}, "authorizer": {"jwt": {"claims": {"iss": "one"}}}}));
    for event in [nobody.rest(), nobody.http()] {
        assert_eq!(problem(&send(&function, &event).await).1, "caller_missing");
    }
    // Whose token was renewed is known by name all the same.
    let renewed = |token| {
        let context = json!({"authorizer": {"claims": {"iss": "pool", "sub": "carl"}}});
        Request { context, ..by_token(token) }.rest()
    };
    let first = send(&function, &renewed("Bearer one")).await;
    assert_eq!(send(&function, &renewed("Bearer two")).await.body, first.body);

    let shared = counting(lambda::api(Once::memory()).caller(Caller::Anyone), &runs);
    let first = send(&shared, &by_token("Bearer ann").rest()).await;
    assert_eq!(send(&shared, &by_token("Bearer bob").rest()).await.body, first.body);
}

#[tokio::test]
async fn users_of_an_identity_pool_are_callers_of_their_own() {
    let runs = Count::default();
    let function = counting(lambda::api(Once::memory()), &runs);
    // What signs a request differs from try to try.
    let signed = |context: Value, n: usize| Request {
        context,
        ..post("k").without("Authorization").with("Authorization", &format!("AWS4-HMAC-SHA256 Signature={n}"))
    };
    let role = "arn:aws:sts::1:assumed-role/PoolAuthRole/CognitoIdentityCredentials";
    let of_rest = |arn: &str, identity: Value| json!({"identity": {"userArn": arn, "cognitoIdentityId": identity, "cognitoIdentityPoolId": "eu:pool"}});
    let of_http = |arn: &str, identity: Value| {
        let pool = identity
            .as_str()
            .map(|id| json!({"amr": ["authenticated"], "identityId": id, "identityPoolId": "eu:pool"}));
        json!({"authorizer": {"iam": {"userArn": arn, "cognitoIdentity": pool}}})
    };
    let other = "arn:aws:sts::1:assumed-role/PoolAdminRole/CognitoIdentityCredentials";
    for attempt in 0..2 {
        let callers = [
            signed(of_rest(role, json!("eu:ann")), attempt).rest(),
            signed(of_rest(role, json!("eu:bob")), attempt).rest(),
            signed(of_rest(other, json!("eu:ann")), attempt).rest(),
            signed(of_rest(role, json!(null)), attempt).rest(),
            signed(of_http(role, json!("eu:ann")), attempt).http(),
            signed(of_http(role, json!("eu:bob")), attempt).http(),
            signed(of_http(other, json!("eu:ann")), attempt).http(),
            signed(of_http(role, json!(null)), attempt).http(),
        ];
        for (n, caller) in callers.iter().enumerate() {
            assert_eq!(send(&function, caller).await.body, format!("receipt {}", n + 1), "the {n}th caller");
        }
    }
}

#[tokio::test]
async fn a_response_that_says_try_again_is_not_kept() {
    for (status, is_kept) in [
        (200, true),
        (302, true),
        (404, true),
        (409, true),
        (408, false),
        (429, false),
        (500, false),
        (503, false),
    ] {
        let runs = Count::default();
        let handler = async |_: LambdaEvent<Value>, _| {
            Ok(json!({"statusCode": status, "body": runs.add().to_string()}))
        };
        let function = lambda::api(Once::memory()).handler(handler);
        let answers = [send(&function, &post("k").rest()).await, send(&function, &post("k").rest()).await];
        assert_eq!(answers[0].status, status);
        assert_eq!(answers[1].body, if is_kept { "1" } else { "2" }, "{status}");
        let function = lambda::api(Once::memory()).store_errors().handler(handler);
        let answers = [send(&function, &post("k").rest()).await, send(&function, &post("k").rest()).await];
        assert_eq!(answers[0].body, answers[1].body, "{status}, and errors are stored");
    }
}

#[tokio::test]
async fn any_json_is_a_response_of_an_http_api() {
    let runs = Count::default();
    let function =
        lambda::api(Once::memory()).handler(async |_: LambdaEvent<Value>, _| Ok(json!({"run": runs.add()})));
    assert_eq!(invoke(&function, &post("k").http()).await.unwrap(), r#"{"run":1}"#);
    let again = send(&function, &post("k").http()).await;
    assert_eq!((again.status, again.body.as_str()), (200, r#"{"run":1}"#));
    assert_eq!(again.headers, json!({"content-type": "application/json", "idempotency-replayed": "true"}));
}

#[tokio::test]
async fn nothing_is_a_result_and_an_operators_word_is_none() {
    let function = lambda::api(Once::memory()).handler(async |_: LambdaEvent<Value>, _| Ok(()));
    assert_eq!(invoke(&function, &post("k").http()).await.unwrap(), "null");
    let again = send(&function, &post("k").http()).await;
    assert_eq!((again.status, again.body.as_str()), (200, "null"));
    assert_eq!(again.headers["idempotency-replayed"], "true");

    let (world, key) = (world(), OnceLock::new());
    let doubtful = lambda::api(world.once.clone()).handler(async |_: LambdaEvent<Value>, lease| {
        let _ = key.set(lease.key().clone());
        Err::<(), _>(HandlerError::unknown("the line went dead"))
    });
    send(&doubtful, &post("k").http()).await;
    world
        .once
        .resolve(key.get().unwrap(), Resolution::happened(), "ann", "it is in the ledger")
        .await
        .unwrap();
    let told = send(&doubtful, &post("k").http()).await;
    assert_eq!(problem(&told), (409, "response_not_retained".to_owned()));
}

#[tokio::test]
async fn a_duplicate_in_flight_is_told_when_to_come_again() {
    let (world, gate) = (world(), Arc::new(Notify::new()));
    let function = lambda::api(world.once.clone()).handler({
        let gate = gate.clone();
        move |_: LambdaEvent<Value>, _| {
            let gate = gate.clone();
            async move {
                gate.notified().await;
                Ok(json!({"statusCode": 204}))
            }
        }
    });
    let first = tokio::spawn({
        let function = function.clone();
        async move { send(&function, &post("k").rest()).await }
    });
    settle().await;
    let busy = send(&function, &post("k").rest()).await;
    assert_eq!(problem(&busy), (409, "in_progress".to_owned()));
    let wait: u64 = busy.headers["retry-after"].as_str().unwrap().parse().unwrap();
    // An invocation is timed by the machine's own clock, and some of its time may be over.
    assert!((30..=61).contains(&wait), "the lease has a minute and a second, and not {wait} s");
    gate.notify_one();
    assert_eq!(first.await.unwrap().status, 204);
    assert_eq!(send(&function, &post("k").rest()).await.headers, json!({"idempotency-replayed": "true"}));
}

#[tokio::test]
async fn what_needs_no_key_passes_through_unprotected() {
    let (world, runs) = (world(), Count::default());
    let describe = || lambda::api(world.once.clone());
    let handler = async |_: LambdaEvent<Value>, lease: semel::service::LentLease| {
        Ok(json!({"statusCode": 200, "body": format!("{} {}", runs.add(), lease.is_protected())}))
    };
    let function = describe().handler(handler);
    for request in [
        Request { method: "GET", ..post("k") },
        Request { method: "DELETE", ..post("k").without("Idempotency-Key") },
    ] {
        let before = runs.get();
        for n in 1..=2 {
            assert_eq!(send(&function, &request.rest()).await.body, format!("{} false", before + n));
        }
    }
    let optional = describe().optional().handler(handler);
    assert_eq!(send(&optional, &post("").without("Idempotency-Key").rest()).await.body, "5 false");
    assert_eq!(world.store.swaps.get(), 0);
    assert_eq!(send(&optional, &post("k").rest()).await.body, "6 true");
    let put = describe().methods(["PUT".parse().unwrap()]).handler(handler);
    assert_eq!(send(&put, &Request { method: "PUT", ..post("k") }.rest()).await.body, "7 true");
    assert_eq!(send(&put, &post("k").rest()).await.body, "8 false");
}

#[tokio::test]
async fn what_became_of_a_call_is_told_as_a_problem() {
    let told = async |describe: Lambda<Api>, error: Option<HandlerError>| {
        let error = std::sync::Mutex::new(error);
        let function =
            describe.handler(async |_: LambdaEvent<Value>, _| match error.lock().unwrap().take() {
                Some(error) => Err(error),
                None => Ok(json!({"statusCode": 200, "body": "x".repeat(1_000)})),
            });
        let _first = invoke(&function, &post("k").http()).await;
        problem(&send(&function, &post("k").http()).await)
    };
    let large = lambda::api(Once::memory()).prepare(|call| call.body_bytes_max(10));
    assert_eq!(told(large, None).await, (409, "response_not_retained".to_owned()));
    let doubt = Some(HandlerError::unknown("the line went dead"));
    assert_eq!(told(lambda::api(Once::memory()), doubt).await, (409, "outcome_unknown".to_owned()));
    let lost = Once::new(semel_testkit::ChaosStore::new(world().store, 7).fails_one_in(1));
    assert_eq!(told(lambda::api(lost), None).await, (503, "store".to_owned()));
}

#[tokio::test]
async fn a_handler_that_was_stopped_is_not_told_as_nothing_done() {
    let world = world();
    let runs = Count::default();
    let function = {
        let runs = runs.clone();
        lambda::api(world.once.clone()).handler(move |_: LambdaEvent<Value>, _| {
            runs.add();
            std::future::pending::<Result<Value, HandlerError>>()
        })
    };
    let context = context("orders", Duration::from_secs(10));
    let running = tokio::spawn(async move { invoke_with(&function, &post("k").http(), context).await });
    settle().await;
    assert_eq!(runs.get(), 1, "it is at work");
    world.clock.advance(Duration::from_secs(10) + lambda::MARGIN);
    let answer: Value = serde_json::from_str(&running.await.unwrap().unwrap()).unwrap();
    assert_eq!((&answer["statusCode"], &answer["headers"]["retry-after"]), (&json!(503), &json!("5")));
    assert!(answer["body"].as_str().unwrap().contains("/problems/interrupted/"), "{answer}");
}

#[tokio::test]
async fn a_handlers_error_is_the_functions() {
    let runs = Count::default();
    let function = lambda::api(Once::memory()).handler(async |_: LambdaEvent<Value>, _| {
        runs.add();
        Err::<Value, _>(HandlerError::fatal(NamedError::new("CardDeclined", "no")))
    });
    for _delivery in 0..2 {
        assert_eq!(invoke(&function, &post("k").rest()).await.unwrap_err().error_type, "CardDeclined");
    }
    assert_eq!(runs.get(), 1);
    let odd = [r#"{"id": 7}"#, "7", r#"{"httpMethod": "P O"}"#, r#"{"httpMethod": "POST", "headers": 7}"#];
    for event in odd {
        assert_eq!(invoke(&function, event).await.unwrap_err().error_type, "Semel.InvalidEvent", "{event}");
    }
}

#[tokio::test]
async fn what_only_semel_says_is_taken_off_the_request() {
    let echo = async |event: LambdaEvent<Value>, _| Ok(event.payload);
    let forged = post("k").with("Idempotency-Replayed", "true").with("semel-fence", "7").with("X-Kept", "x");
    for event in [forged.rest(), forged.http()] {
        let function = lambda::api(Once::memory()).handler(echo);
        let seen = invoke(&function, &event).await.unwrap().to_ascii_lowercase();
        assert!(!seen.contains("idempotency-replayed") && !seen.contains("semel-fence"), "{seen}");
        assert!(seen.contains("x-kept"));
    }
}
