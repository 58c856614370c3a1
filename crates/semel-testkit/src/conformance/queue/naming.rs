//! Rules about which names are one and which are not.

use super::sample::{Bench, fresh_number, list, names};
use semel_core::{
    execution::{Execution, Origin},
    key::SCOPE_BYTES_MAX,
    queue::{Filter, Queue},
};
use std::sync::Arc;

/// Texts that somebody may have taken for the same, or for something else than a name.
fn hostile() -> Vec<String> {
    let texts = [
        "order",
        "Order",
        "order ",
        " order",
        "order\0",
        "\0order",
        "order\n",
        "café",
        "cafe\u{301}",
        "'; DROP TABLE executions; --",
        "\"",
        "\\",
        "\\0",
        "\\\\",
        "%",
        "_",
        "*",
        ">",
        "a.b.>",
        "{tag}",
        "../../etc",
        "%00",
        "日本語",
        "🦀",
        "\u{202e}evil",
        "$1",
        "NULL",
        "null",
        "\u{feff}order",
    ];
    texts.map(str::to_owned).to_vec()
}

/// Functions whose names look alike are apart: what is due, listed and counted of one is not another's.
pub async fn functions_that_look_alike_are_apart(queue: &dyn Queue) {
    let run = fresh_number();
    let mut functions: Vec<String> = hostile().into_iter().map(|it| format!("{run:x}-{it}")).collect();
    functions.extend(["a", "b"].map(|last| format!("{run:016x}{}{last}", "f".repeat(SCOPE_BYTES_MAX - 17))));
    let benches = functions.iter().map(|it| Bench { queue, function: Arc::from(it.as_str()) });
    let benches: Vec<Bench<'_>> = benches.collect();
    for bench in &benches {
        bench.accept_new(&bench.due("evt-1")).await;
    }
    for bench in &benches {
        let listed = list(queue, &bench.all(), 10).await;
        assert_eq!(listed.len(), 1, "`{:?}` is listed with others", bench.function);
        assert_eq!(bench.counts().await.accepted, 1);
        let handed_out = bench.claim(10).await;
        assert_eq!(handed_out.len(), 1, "of `{:?}`", bench.function);
        assert_eq!(handed_out[0].value.function, bench.function);
    }
}

/// Whatever an event says of itself does no harm, comes back, and is found by exactly what it is.
pub async fn hostile_names_of_events_do_no_harm(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let mut texts = hostile();
    texts.extend(["a", "b"].map(|last| "n".repeat(5_000) + last));
    for (index, text) in texts.iter().enumerate() {
        let new = bench.due(&format!("key-{index}"));
        let origin =
            Origin { source: text.as_str().into(), id: text.as_str().into(), kind: text.as_str().into() };
        let new = Execution { origin, last_error: Some(text.clone()), ..new };
        assert_eq!(bench.accept_new(&new).await.value, new);
    }
    for text in &texts {
        for filter in [
            Filter { name: Some(text.as_str().into()), ..bench.all() },
            Filter { kind: Some(text.as_str().into()), ..bench.all() },
        ] {
            let found = list(queue, &filter, 10).await;
            assert_eq!(names(&found), [text], "by {filter:?}");
        }
    }
}

/// Orders that look alike do not block each other.
pub async fn orders_that_look_alike_are_apart(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let mut orders = hostile();
    orders.push(String::new());
    orders.extend(["a", "b"].map(|last| "o".repeat(5_000) + last));
    for (index, order) in orders.iter().enumerate() {
        bench.accept_new(&bench.ordered(&index.to_string(), order)).await;
    }
    assert_eq!(bench.claim(100).await.len(), orders.len(), "an order is blocked by another");
}
