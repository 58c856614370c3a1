//! What does not open is told, and never run again.

use super::{CANARY, Vault, completed, key, keyring, refused};
use crate::observe::count;
use semel::{HandlerError, Status, seal::KeyId};
use std::cell::Cell;

#[tokio::test]
async fn a_result_that_was_moved_to_another_key_does_not_open() {
    let vault = Vault::new();
    let once = vault.sealed_with(keyring("k1", 1));
    completed(&once, "ann").await;
    completed(&once, "bob").await;
    let anns = vault.stored(&key("ann")).await.record;
    vault.put(&key("bob"), &anns).await;
    assert!(refused(once.call_key(key("bob"))).await.contains("moved from another record"));
}

#[tokio::test]
async fn an_error_in_the_place_of_a_result_does_not_open() {
    let vault = Vault::new();
    let once = vault.sealed_with(keyring("k1", 1));
    let fatal = async |_: &semel::Lease| Err::<String, _>(HandlerError::fatal("declined"));
    once.call_key(key("pay")).run(fatal).await.unwrap_err();
    let text = vault.text(&key("pay")).await;
    let (_, sealed) = text.rsplit_once(':').unwrap();
    let sealed = base64_of(sealed);
    once.forget(&key("pay"), "mallory", "to complete it").await.unwrap();
    completed(&once, "pay").await;
    vault.put_body(&key("pay"), [b"S\x02k1", sealed.as_slice()].concat()).await;
    refused(once.call_key(key("pay"))).await;
}

/// Decodes by hand, so that the test does not depend on what it tests.
fn base64_of(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut buffer, mut bits) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes() {
        buffer = buffer << 6 | DIGITS.iter().position(|it| *it == digit).unwrap() as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits) as u8);
        }
    }
    bytes
}

#[tokio::test]
async fn what_does_not_open_names_the_key_and_the_remedy() {
    let vault = Vault::new();
    completed(&vault.sealed_with(keyring("2025", 1)), "pay").await;
    let call = |once: &semel::Once| once.call_key(key("pay"));
    let told = [
        refused(call(&vault.plain())).await,
        refused(call(&vault.sealed_with(keyring("2026", 1)))).await,
        refused(call(&vault.sealed_with(keyring("2025", 2)))).await,
    ];
    let plain = Vault::new();
    completed(&plain.plain(), "pay").await;
    let strict = plain.sealed_with(keyring("2026", 1).refuse_plain());
    let told = [told.as_slice(), &[refused(call(&strict)).await]].concat();
    insta::assert_snapshot!(told.join("\n"));
}

#[tokio::test]
async fn an_old_key_still_opens_and_the_new_one_seals() {
    let vault = Vault::new();
    completed(&vault.sealed_with(keyring("2025", 1)), "before").await;
    let rotated = keyring("2026", 2).and_open(KeyId::new("2025").unwrap(), [1; 32]).unwrap();
    let once = vault.sealed_with(rotated);
    let before = once.call_key(key("before")).run(async |_| Ok(String::new())).await.unwrap();
    assert_eq!(before, CANARY);
    completed(&once, "after").await;
    assert_eq!(&vault.body(&key("after")).await[..6], b"S\x042026");
    assert!(refused(vault.sealed_with(keyring("2025", 1)).call_key(key("after"))).await.contains("`2026`"));
}

#[tokio::test]
async fn what_was_written_before_sealing_stays_readable_unless_it_is_refused() {
    let vault = Vault::new();
    completed(&vault.plain(), "pay").await;
    let call = |ring| vault.sealed_with(ring).call_key(key("pay"));
    let before = call(keyring("k1", 1)).run(async |_| Ok(String::new())).await.unwrap();
    assert_eq!(before, CANARY);
    assert!(refused(call(keyring("k1", 1).refuse_plain())).await.contains("not sealed"));
    completed(&vault.sealed_with(keyring("k1", 1)), "sealed").await;
    let strict = vault.sealed_with(keyring("k1", 1).refuse_plain());
    assert_eq!(strict.call_key(key("sealed")).run(async |_| Ok(String::new())).await.unwrap(), CANARY);
}

#[tokio::test]
async fn a_call_survives_an_effect_whose_result_does_not_open() {
    let vault = Vault::new();
    let charges = Cell::new(0);
    let run = async |ring, fails: bool| {
        let call = vault.sealed_with(ring).call_key(key("pay"));
        call.run(async |lease| {
            let charge = lease.effect("charge").at_most_once();
            let charged = charge.run(async || {
                charges.set(charges.get() + 1);
                Ok::<_, HandlerError>(CANARY.to_owned())
            });
            let charged = charged.await?;
            if fails { Err("not yet".into()) } else { Ok(charged) }
        })
        .await
    };
    run(keyring("2025", 1), true).await.unwrap_err();
    let error = run(keyring("2026", 2), false).await.unwrap_err();
    assert_eq!(error.kind(), semel::ErrorKind::Sealed, "{error}");
    let snapshot = vault.plain().get_key(&key("pay")).await.unwrap().unwrap();
    assert_eq!(snapshot.status(), Status::Pending, "it may be run when the key is back");
    let both = keyring("2026", 2).and_open(KeyId::new("2025").unwrap(), [1; 32]).unwrap();
    assert_eq!(run(both, false).await.unwrap(), CANARY);
    assert_eq!(charges.get(), 1, "the charge was sent again");
}

#[cfg(feature = "metrics")]
#[test]
fn what_does_not_open_is_counted_by_its_cause() {
    let counts = count("semel_unopened_total", async {
        let vault = Vault::new();
        let once = vault.sealed_with(keyring("k1", 1));
        completed(&once, "pay").await;
        let call = |once: semel::Once| once.call_key(key("pay"));
        refused(call(vault.plain())).await;
        refused(call(vault.sealed_with(keyring("k2", 1)))).await;
        refused(call(vault.sealed_with(keyring("k1", 2)))).await;
        vault.put_body(&key("pay"), b"S\xff".to_vec()).await;
        refused(call(once)).await;
        vault.put_body(&key("pay"), b"\0\"mine\"".to_vec()).await;
        refused(call(vault.sealed_with(keyring("k1", 1).refuse_plain()))).await;
    });
    insta::assert_snapshot!(counts);
}
