//! What a person can get wrong about keys, and what is never shown.

use super::{CANARY, Vault, completed, key, keyring, refused};
use semel::seal::{KEY_ID_BYTES_MAX, KEYS_MAX, KeyId, Keyring, KeyringError, SealKey};
use std::error::Error as _;

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Whether a text is read as the bytes from 0 to 31.
async fn is_counted(text: &str) -> bool {
    let vault = Vault::new();
    let counted: [u8; 32] = std::array::from_fn(|at| at as u8);
    completed(&vault.sealed_with(Keyring::new(KeyId::new("k1").unwrap(), counted)), "pay").await;
    let read = Keyring::new(KeyId::new("k1").unwrap(), SealKey::from_text(text).unwrap());
    let again = vault.sealed_with(read).call_key(key("pay")).run(async |_| Ok(String::new())).await;
    again.is_ok_and(|it| it == CANARY)
}

#[tokio::test]
async fn a_key_is_read_as_people_keep_it() {
    for text in [HEX, BASE64, BASE64.trim_end_matches('='), &format!("  {HEX}\n"), &format!("{BASE64}\r\n")] {
        assert!(is_counted(text).await, "{text}");
    }
    assert!(!is_counted(&HEX.replace("1F", "20")).await, "else this test would show nothing");
    // Both alphabets.
    let (standard, url_safe) = ("/".repeat(42) + "8", "_".repeat(42) + "8");
    assert_eq!(SealKey::from_text(&standard).map(drop), SealKey::from_text(&url_safe).map(drop));
}

#[test]
fn what_is_wrong_with_a_key_is_said_precisely() {
    let keyring = |text: &str| text.parse::<Keyring>().unwrap_err();
    let wrong = [
        KeyId::new("").unwrap_err(),
        KeyId::new("k".repeat(KEY_ID_BYTES_MAX + 1)).unwrap_err(),
        KeyId::new("new key").unwrap_err(),
        KeyId::new("schlüssel").unwrap_err(),
        SealKey::from_text("").unwrap_err(),
        SealKey::from_text(&HEX[2..]).unwrap_err(),
        SealKey::from_text(&format!("{HEX}00")).unwrap_err(),
        SealKey::from_text("correct horse battery staple").unwrap_err(),
        SealKey::from_text(&BASE64.replace("8=", "9=")).unwrap_err(),
        SealKey::from_text(&"a+-b".repeat(11)).unwrap_err(),
        keyring(""),
        keyring(HEX),
        keyring(&format!("2026:{HEX},2025")),
        keyring(&format!("2026:{HEX},2025:{}", &HEX[1..])),
        keyring(&format!("2026:{HEX}, 2026:{BASE64}")),
    ];
    let told = wrong.iter().map(|error| match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
}

#[test]
fn names_and_keyrings_end_where_they_are_said_to() {
    assert!(KeyId::new("k".repeat(KEY_ID_BYTES_MAX)).is_ok());
    let full = (1..KEYS_MAX).fold(keyring("0", 0), |ring, at| {
        ring.and_open(KeyId::new(at.to_string()).unwrap(), [0; 32]).unwrap()
    });
    let one_more = full.and_open(KeyId::new("more").unwrap(), [0; 32]);
    assert_eq!(one_more.map(drop), Err(KeyringError::TooMany));
}

#[tokio::test]
async fn keyrings_are_read_from_one_text() {
    let vault = Vault::new();
    completed(&vault.sealed_with(keyring("2025", 0)), "pay").await;
    let read: Keyring = format!("2026:{BASE64} , 2025:{}", "00".repeat(32)).parse().unwrap();
    let once = vault.sealed_with(read);
    assert_eq!(once.call_key(key("pay")).run(async |_| Ok(String::new())).await.unwrap(), CANARY);
    completed(&once, "new").await;
    assert_eq!(&vault.body(&key("new")).await[..6], b"S\x042026", "the first one seals");
}

#[tokio::test]
async fn keys_are_never_shown() {
    let vault = Vault::new();
    let secret = SealKey::from_text(HEX).unwrap();
    let ring = Keyring::new(KeyId::new("k1").unwrap(), secret.clone());
    let shown = [
        format!("{secret:?}"),
        format!("{ring:?}"),
        format!("{:?}", semel::Once::builder().sealed_with(ring.clone())),
        format!("{:?}", vault.sealed_with(ring.clone())),
        format!("{:?}", format!("k1:{HEX},k1:{HEX}").parse::<Keyring>().unwrap_err()),
        format!("{:?}", SealKey::from_text(&format!("{HEX}!")).unwrap_err()),
        {
            completed(&vault.sealed_with(keyring("k1", 9)), "pay").await;
            refused(vault.sealed_with(ring).call_key(key("pay"))).await
        },
    ];
    for shown in shown {
        let digits = shown.replace([',', ' '], "").to_lowercase();
        assert!(!digits.contains("0a0b0c0d") && !digits.contains("10111213"), "{shown}");
    }
}
