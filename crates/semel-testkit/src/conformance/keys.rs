//! Rules about which keys are one and which are not.

use super::sample::{expect_stored, fresh_key, fresh_scope, load, remembered, running, swap, write};
use semel_core::{
    key::{ID_BYTES_MAX, Key, SCOPE_BYTES_MAX},
    store::{Store, Swap},
};

/// Writing, finishing and losing on one key leaves another as it is.
pub async fn two_keys_do_not_disturb_each_other(store: &dyn Store) {
    let (left, right) = (fresh_key("left"), fresh_key("right"));
    let (ours, theirs) = (running(store, 1), running(store, 2));
    let a = write(store, &left, None, &ours).await;
    let b = write(store, &right, None, &theirs).await;
    expect_stored(store, &left, a, &ours).await;
    write(store, &left, Some(a), &remembered(store)).await;
    expect_stored(store, &right, b, &theirs).await;
    // A fence is good for its own key only, unless the two happen to be equal.
    if a != b {
        assert!(matches!(swap(store, &right, Some(a), &ours).await, Swap::Lost(Some(_))));
    }
    expect_stored(store, &right, b, &theirs).await;
}

/// Ids that differ in case, in a trailing space, in Unicode form or in type only are different keys.
pub async fn keys_that_look_alike_are_apart(store: &dyn Store) {
    let scope = fresh_scope();
    let texts = ["order-1", "Order-1", "order-1 ", "order-%31", "café", "cafe\u{301}", "42"];
    let mut keys: Vec<Key> =
        texts.iter().map(|id| Key::new(scope, *id).expect("these ids are valid")).collect();
    keys.push(Key::new(scope, 42).expect("a number is a valid id"));
    keys.push(Key::new(scope, ("order", "1")).expect("a pair is a valid id"));
    keys_are_apart(store, &keys).await;
}

/// Whatever a key may consist of does no harm: quotes, wildcards, other alphabets, the longest there can be.
pub async fn unicode_and_long_keys_work(store: &dyn Store) {
    let (_, run) = fresh_scope();
    let hostile =
        ["'; DROP TABLE records; --", "*", ">", "a.b.>", "{tag}", "../../etc", "%00", "日本語", "🦀🦀🦀"];
    let mut keys: Vec<Key> =
        hostile.iter().map(|id| Key::new(run, *id).expect("these ids are valid")).collect();
    // The longest keys, different in the last byte only.
    let scope = format!("{run:020}{}", "s".repeat(SCOPE_BYTES_MAX - 20));
    for last in ["a", "b"] {
        let id = "i".repeat(ID_BYTES_MAX - 1) + last;
        keys.push(Key::new(&scope, id).expect("the longest key is a key"));
    }
    keys_are_apart(store, &keys).await;
}

/// An effect's record is not its handler's, nor another effect's.
pub async fn an_effect_stands_apart_from_its_handler(store: &dyn Store) {
    let handler = fresh_key("handler");
    let effect = |name: &str| handler.effect(name).expect("these names are valid");
    let keys = [effect("charge"), effect("email"), handler.clone()];
    keys_are_apart(store, &keys).await;
}

/// Writes another record under each, and demands that each holds its own.
async fn keys_are_apart(store: &dyn Store, keys: &[Key]) {
    let mut written = Vec::new();
    for (holder, key) in (0..).zip(keys) {
        assert_eq!(load(store, key).await, None, "`{key}` was written under another key");
        let record = running(store, holder);
        written.push((key, write(store, key, None, &record).await, record));
    }
    for (key, fence, record) in &written {
        expect_stored(store, key, *fence, record).await;
    }
}
