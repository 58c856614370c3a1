//! What handlers say when they fail is sealed, too.

use super::{CANARY, Vault, key, keyring};
use semel::{ErrorKind, HandlerError, Reason, Resolution, Status, seal::KEY_ID_BYTES_MAX};
use std::cell::RefCell;

#[tokio::test]
async fn what_was_said_is_sealed_and_replayed() {
    let vault = Vault::new();
    let once = vault.sealed_with(keyring("k1", 1));
    let fatal = once.call_key(key("fatal")).run(async |_| Err::<(), _>(HandlerError::fatal(CANARY)));
    fatal.await.unwrap_err();
    let plain = once.call_key(key("plain")).run(async |_| Err::<(), _>(HandlerError::from(CANARY)));
    plain.await.unwrap_err();
    for scope in ["fatal", "plain"] {
        let stored = vault.text(&key(scope)).await;
        assert!(stored.starts_with("semel:sealed:k1:") && !stored.contains(CANARY), "{stored}");
        let snapshot = once.get_key(&key(scope)).await.unwrap().unwrap();
        assert_eq!(snapshot.error(), Some(CANARY));
    }
    let again = once.call_key(key("fatal")).run(async |_| Ok(())).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::FailedBefore { reason: Reason::Fatal });
    assert_eq!(again.detail(), Some(CANARY));
    once.call_key(key("plain")).run(async |_| Ok(())).await.expect("it may be run again");
}

#[tokio::test]
async fn what_effects_say_is_sealed_and_replayed() {
    let vault = Vault::new();
    let once = vault.sealed_with(keyring("k1", 1));
    let said = RefCell::new(Vec::new());
    for _attempt in 0..2 {
        let call = once.call_key(key("pay")).run(async |lease| {
            let charge = lease.effect("charge").at_least_once();
            let error = charge.run(async || Err::<(), _>(HandlerError::fatal(CANARY))).await.unwrap_err();
            said.borrow_mut().push((error.kind().as_str(), error.detail().map(str::to_owned)));
            Err::<(), _>(HandlerError::from("not yet"))
        });
        call.await.unwrap_err();
    }
    let stored = vault.text(&key("pay").effect("charge").unwrap()).await;
    assert!(stored.starts_with("semel:sealed:k1:") && !stored.contains(CANARY), "{stored}");
    assert_eq!(said.into_inner(), [("handler", None), ("failed_before", Some(CANARY.to_owned()))]);
}

#[tokio::test]
async fn a_doubt_that_is_sealed_can_be_resolved() {
    let vault = Vault::new();
    let once = vault.sealed_with(keyring("k1", 1));
    let run = async || {
        let call = once.call_key(key("pay"));
        call.run(async |lease| {
            let charge = lease.effect("charge").at_most_once();
            Ok(charge.run(async || Err::<u32, _>(HandlerError::unknown(CANARY))).await?)
        })
        .await
    };
    assert_eq!(run().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let charge = key("pay").effect("charge").unwrap();
    for sealed in [vault.text(&key("pay")).await, vault.text(&charge).await] {
        assert!(sealed.starts_with("semel:sealed:k1:") && !sealed.contains(CANARY), "{sealed}");
    }
    let happened = Resolution::happened_with(&7).unwrap();
    let receipt = once.resolve(&charge, happened, "ann", "saw it").await.unwrap();
    assert_eq!(receipt.released, Some(key("pay")), "nothing else was in doubt");
    assert_eq!(run().await.unwrap(), 7);
}

#[tokio::test]
async fn a_failure_whose_text_does_not_open_is_still_that_failure() {
    let vault = Vault::new();
    let sealing = vault.sealed_with(keyring("2025", 1));
    let fatal = sealing.call_key(key("pay")).run(async |_| Err::<(), _>(HandlerError::fatal(CANARY)));
    fatal.await.unwrap_err();
    for once in [vault.plain(), vault.sealed_with(keyring("2026", 1)), vault.sealed_with(keyring("2025", 2))]
    {
        let again = once.call_key(key("pay")).run(async |_| -> Result<(), _> { panic!("it ran again") });
        let error = again.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedBefore { reason: Reason::Fatal });
        let detail = error.detail().unwrap();
        assert!(detail.contains("cannot be opened") && detail.contains("`2025`"), "{detail}");
        let snapshot = once.get_key(&key("pay")).await.unwrap().unwrap();
        assert_eq!((snapshot.status(), snapshot.error()), (Status::Failed, Some(detail)));
    }
}

#[tokio::test]
async fn a_text_too_long_to_be_kept_is_cut_before_it_is_sealed() {
    let vault = Vault::new();
    let longest = "k".repeat(KEY_ID_BYTES_MAX);
    let once = vault.sealed_with(keyring(&longest, 1));
    let said = "ü".repeat(5_000);
    let fatal = once.call_key(key("pay")).run(async |_| Err::<(), _>(HandlerError::fatal(said.clone())));
    fatal.await.unwrap_err();
    let stored = vault.text(&key("pay")).await;
    assert!(stored.len() <= semel_core::record::ERROR_BYTES_MAX, "{} bytes", stored.len());
    let again = once.call_key(key("pay")).run(async |_| Ok(())).await.unwrap_err();
    let detail = again.detail().unwrap();
    assert!(said.starts_with(detail) && detail.len() == 2_996, "{} bytes", detail.len());
}
