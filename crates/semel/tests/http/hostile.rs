//! What must be refused, and what must not be told. The numbers are those of the project's list of hostile inputs.

use crate::bodies::{data, pieces, whole};
use crate::support::{Answer, App, Sent, World, json, keyless, order, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header::AUTHORIZATION};
use http_body::Frame;
use http_body_util::Full;
use semel::http::{Caller, IDEMPOTENCY_KEY};

fn of(caller: &str, key: &[u8]) -> Request<Sent> {
    let mut request = json(Request::post("/orders"), r#"{"item":"book"}"#);
    request.headers_mut().insert(AUTHORIZATION, caller.parse().unwrap());
    request.headers_mut().insert(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap());
    request
}

/// 11: refused before anything is hashed or looked up, with one body for all of them.
#[tokio::test]
async fn a_malformed_key_is_refused_before_the_store_is_asked() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    let long = "k".repeat(256);
    let long_quoted = format!("\"{long}\"");
    let keys: [&[u8]; 16] = [
        b"",
        b" ",
        b"\"\"",
        b"\"  \"",
        long.as_bytes(),
        long_quoted.as_bytes(),
        b"\"caf\xc3\xa9\"",
        b"caf\xe9",
        b"\"tab\there\"",
        b"\"open",
        b"close\"",
        b"\"a\"\"b\"",
        b"\"a\", \"b\"",
        b"a, b",
        b"\"bad\\escape\"",
        b"\"a\";",
    ];
    let mut bodies = Vec::new();
    for key in keys {
        let answer = app.send(of("Bearer ann", key)).await;
        answer.is_problem(400, "key-invalid");
        bodies.push(answer);
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "one answer for all of them");
    assert_eq!((world.calls(), world.store.asked().len()), (0, 0));
}

/// 31: there is no bucket for callers that nobody knows.
#[tokio::test]
async fn a_key_without_a_caller_is_refused_before_the_store_is_asked() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    let mut nobody = of("Bearer ann", b"k");
    nobody.headers_mut().remove(AUTHORIZATION);
    let refused = app.send(nobody).await;
    refused.is_problem(401, "caller-missing");
    assert_eq!(refused.headers["www-authenticate"], "Bearer", "a 401 says what it wants");
    app.send(of("", b"k")).await.is_problem(401, "caller-missing");
    let told = world.numbered(&world.layer().caller(Caller::from_fn(|_| None)));
    let refused = told.send(of("Bearer ann", b"k")).await;
    refused.is_problem(401, "caller-missing");
    assert!(!refused.headers.contains_key("www-authenticate"), "credentials would not tell");
    assert_eq!((world.calls(), world.store.asked().len()), (0, 0));
    assert_eq!(
        app.send(keyless(Method::POST)).await.status,
        200,
        "without a key nobody is asked who they are"
    );
}

/// 30: to everybody else a key that is known is a key that is new: the same answer, for which the same is asked of the store.
#[tokio::test]
async fn another_callers_key_cannot_be_told_from_a_new_one() {
    let world = World::new();
    let app = world.answering(&world.layer(), |_| Response::new(whole("hello")));
    let watched = async |request| {
        world.store.asked();
        let answer = app.send(request).await;
        (answer, world.store.asked())
    };
    let (of_ann, _) = watched(of("Bearer ann", b"k")).await;
    let guessed = watched(of("Bearer bob", b"k")).await;
    let new = watched(of("Bearer bob", b"other")).await;
    assert_eq!(guessed, new);
    assert_eq!(guessed.0, of_ann);
    assert!(!guessed.0.is_replay());
    assert_eq!(world.calls(), 3, "nobody was given another one's response");
    // Nor is one caller's key in the way of another's, while it is in progress or with another payload.
    let other = json(
        Request::post("/orders").header("authorization", "Bearer eve").header("idempotency-key", "k"),
        r#"{"item":"car"}"#,
    );
    assert_eq!(app.send(other).await.status, 200);
}

/// 30: credentials are compared as a whole, and all of them.
#[tokio::test]
async fn callers_are_told_apart_by_all_of_their_credentials() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    let with = |values: &[&str]| {
        let mut request = of("x", b"k");
        request.headers_mut().remove(AUTHORIZATION);
        for value in values {
            request.headers_mut().append(AUTHORIZATION, value.parse().unwrap());
        }
        request
    };
    let callers: [&[&str]; 6] = [
        &["Bearer a"],
        &["Bearer b"],
        &["Bearer a", "Bearer b"],
        &["Bearer b", "Bearer a"],
        &["bearer a"],
        &["Basic a"],
    ];
    for (n, values) in callers.iter().enumerate() {
        assert_eq!(app.send(with(values)).await.text(), format!("call {}", n + 1));
    }
    for (n, values) in callers.iter().enumerate() {
        assert_eq!(app.send(with(values)).await.text(), format!("call {}", n + 1), "each has its own");
    }
}

/// 9: nothing of the first request is shown to whoever sends another one.
#[tokio::test]
async fn a_mismatch_shows_nothing_of_the_first_request() {
    let world = World::new();
    let app = world.answering(&world.layer(), |_| {
        Response::builder()
            .header("etag", "\"secret\"")
            .header("location", "/secret")
            .body(whole("secret"))
            .unwrap()
    });
    let secret = json(post("k"), r#"{"secret":1}"#);
    app.send(secret).await;
    let answer = app.send(json(post("k"), r#"{"guess":1}"#)).await;
    answer.is_problem(422, "mismatch");
    let shown = format!("{answer:?}");
    assert!(!shown.contains("secret"), "{shown}");
}

/// 15: by what was announced, and by what comes.
#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let world = World::new();
    let app = world.numbered(&world.layer().request_bytes_max(100));
    let of_length = |length: usize| post("k").body(Full::from(vec![b'x'; length])).unwrap();
    app.send(of_length(101)).await.is_problem(413, "request-too-large");
    let mut announced = of_length(10);
    announced.headers_mut().insert("content-length", "101".parse().unwrap());
    app.send(announced).await.is_problem(413, "request-too-large");
    assert_eq!((world.calls(), world.store.asked().len()), (0, 0));
    assert_eq!(app.send(of_length(100)).await.status, 200);
}

/// 33: what only Semel says is taken off, from whoever else says it.
#[tokio::test]
async fn our_own_headers_cannot_be_forged() {
    let world = World::new();
    let app = world.serving(&world.layer(), |request, _| {
        Box::pin(async move {
            let mut seen: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
            seen.sort();
            let response =
                Response::builder().header("idempotency-replayed", "true").header("semel-fence", "9");
            Ok(response.header("semel-outcome", "done").body(whole(seen.join(" "))).unwrap())
        })
    });
    let forged = |mut request: Request<Sent>| {
        for name in
            ["idempotency-replayed", "semel-fence", "semel-attempt", "semel-deadline", "semel-whatever"]
        {
            request.headers_mut().append(name, "true".parse().unwrap());
            request.headers_mut().append(name, "1".parse().unwrap());
        }
        request
    };
    let own = |answer: &Answer| {
        let names = answer.headers.keys().map(HeaderName::as_str);
        names.filter(|it| it.starts_with("semel-") || *it == "idempotency-replayed").count()
    };
    for request in [forged(order("k")), forged(keyless(Method::POST)), forged(keyless(Method::GET))] {
        let answer = app.send(request).await;
        assert_eq!(own(&answer), 0, "{answer:?}");
        assert!(
            !answer.text().contains("semel-") && !answer.text().contains("replayed"),
            "{}",
            answer.text()
        );
    }
    let replay = app.send(forged(order("k"))).await;
    assert!(replay.is_replay());
    assert_eq!(own(&replay), 1);
}

/// 33: nor is it said where it is a trailer: of what is kept, of what is too long for that, and of what has no key.
#[tokio::test]
async fn our_own_headers_cannot_be_forged_as_trailers() {
    let trailers = ["idempotency-replayed", "semel-fence", "x-sum"]
        .map(|it| (HeaderName::from_static(it), HeaderValue::from_static("true")));
    let trailers: HeaderMap = trailers.into_iter().collect();
    let world = World::new();
    let app = world.answering(&world.layer().response_bytes_max(10), move |number| {
        let text = if number == 1 { "short" } else { "longer than ten bytes" };
        Response::new(pieces([data(text), Ok(Frame::trailers(trailers.clone()))]))
    });
    let requests = [order("kept"), order("long"), keyless(Method::POST), keyless(Method::GET), order("kept")];
    for (n, request) in requests.into_iter().enumerate() {
        let answer = app.send(request).await;
        let names: Vec<_> =
            answer.trailers.iter().flat_map(HeaderMap::keys).map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-sum"], "the {n}th");
        assert_eq!(answer.is_replay(), n == 4);
    }
}

/// 36: whatever a key says, it is a name and nothing else.
#[tokio::test]
async fn a_key_made_for_a_store_is_a_key_like_any_other() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    let keys = [
        "\"*\"",
        "\">\"",
        "\"a.b.*\"",
        "\"{tag}\"",
        "\"'; DROP TABLE semel; --\"",
        "\"../../etc/passwd\"",
        "\"%00%0a\"",
        "\"a/b\"",
        "\"a#b\"",
        "\"a:b\"",
        "\"$\\\\{x}\"",
    ];
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(app.send(order(key)).await.text(), format!("call {}", n + 1));
        assert!(app.send(order(key)).await.is_replay());
    }
}

/// 14 of the invariants: what one part says cannot be moved into another.
#[tokio::test]
async fn parts_of_what_a_key_names_do_not_run_into_each_other() {
    let world = World::new();
    let named = |service: &str, route: &'static str| {
        let layer = world.layer().service_name(service).route(move |_| route.to_owned());
        world.numbered(&layer)
    };
    let apps = [
        named("a", "b:c"),
        named("a:b", "c"),
        named("a", "b"),
        named("ab", ""),
        named("", "ab"),
        named("a/b", "c"),
    ];
    for (n, app) in apps.iter().enumerate() {
        assert_eq!(app.send(order("k")).await.text(), format!("call {}", n + 1));
    }
    for key in ["b:k", "b/k", "POST"] {
        assert!(!apps[0].send(order(key)).await.is_replay());
    }
}

/// 37: a header that was compared cannot be given as a part of the body, or the other way round.
#[tokio::test]
async fn what_is_compared_does_not_run_into_each_other_either() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    let sent = |uri: &str, content_type: &str, body: &'static str| {
        let request = Request::post(uri).header("authorization", "a").header("idempotency-key", "k");
        request.header("content-type", content_type).body(Full::from(Bytes::from(body))).unwrap()
    };
    app.send(sent("/orders?x=1", "text/plain", "body")).await;
    for other in [
        sent("/orders?x=1", "text/plai", "nbody"),
        sent("/orders?x=", "1text/plain", "body"),
        sent("/orders?x=1", "text/plainbody", ""),
        sent("/orders?x=1", "text/plain", "body "),
        sent("/orders", "text/plain", "body"),
    ] {
        app.send(other).await.is_problem(422, "mismatch");
    }
    assert_eq!(world.calls(), 1);
}

/// Whether refusals are alike whoever asks: used by the tests of this file through [`Answer`]'s equality.
#[tokio::test]
async fn problems_have_one_form_and_echo_nothing() {
    let world = World::new();
    let app: App = world.numbered(&world.layer().required().request_bytes_max(10));
    let canary = "canary-1b7e";
    let with = |mut request: Request<Sent>| {
        request.headers_mut().insert("x-note", canary.parse().unwrap());
        *request.uri_mut() = format!("/{canary}?q={canary}").parse().unwrap();
        request
    };
    let answers = [
        app.send(with(keyless(Method::POST))).await,
        app.send(with(of("Bearer ann", format!("\"{canary}").as_bytes()))).await,
        app.send(with(of("", canary.as_bytes()))).await,
        app.send(with(order(canary))).await,
    ];
    let slugs =
        [(400, "key-missing"), (400, "key-invalid"), (401, "caller-missing"), (413, "request-too-large")];
    for (answer, (status, slug)) in answers.iter().zip(slugs) {
        answer.is_problem(status, slug);
        assert!(!format!("{answer:?}").contains(canary));
    }
}

/// 34: a row that was copied to another key does not open, and is not served.
#[cfg(feature = "seal")]
#[tokio::test]
async fn a_sealed_response_is_not_served_under_another_key() {
    use semel::{
        MemoryStore, Once, Store as _,
        http::IdempotencyLayer,
        seal::{KeyId, Keyring},
    };
    let world = World::new();
    let store = std::sync::Arc::new(MemoryStore::with_clock(world.clock.arc()));
    let keyring = Keyring::new(KeyId::new("one").unwrap(), [7; 32]);
    let once = Once::builder().sealed_with(keyring).from_store(store.clone());
    let layer = IdempotencyLayer::new(once);
    let app = world.numbered(&layer);
    let key = |key: &str| {
        let (parts, _) = of("Bearer ann", key.as_bytes()).into_parts();
        layer.key_of(&parts).unwrap().unwrap()
    };
    assert_eq!(app.send(of("Bearer ann", b"one")).await.text(), "call 1");
    assert_eq!(app.send(of("Bearer ann", b"two")).await.text(), "call 2");
    let (one, two) = (key("one"), key("two"));
    let copied = store.load(&one).await.unwrap().unwrap().record;
    let fence = store.load(&two).await.unwrap().unwrap().fence;
    assert!(matches!(store.swap(&two, Some(fence), &copied).await.unwrap(), semel::Swap::Won(_)));
    let swapped = app.send(of("Bearer ann", b"two")).await;
    swapped.is_problem(500, "internal");
    assert!(!swapped.text().contains("call"));
    assert_eq!(app.send(of("Bearer ann", b"one")).await.text(), "call 1");
    assert_eq!(world.calls(), 2, "and it does not run again");
}
