//! Keys: two part lists never share an identity, and what is missing is refused.

use crate::given::{any_key, some_parts};
use proptest::prelude::*;
use semel_core::key::{EFFECT_BYTES_MAX, ID_BYTES_MAX, Key, KeyError, PARTS_MAX, Part, SCOPE_BYTES_MAX};
use std::collections::{HashMap, HashSet};

fn check_message(result: Result<Key, KeyError>, message: &str) {
    assert_eq!(result.expect_err(message).to_string(), message);
}

#[test]
fn a_missing_part_is_refused_by_name() {
    let missing = "is missing: give it at least one value that is not null";
    check_message(Key::new("f", None::<&str>), &format!("the key's id {missing}"));
    check_message(Key::new("f", (None::<&str>, None::<u32>)), &format!("the key's id {missing}"));
    check_message(Key::new("f", Vec::<&str>::new()), &format!("the key's id {missing}"));
    check_message(Key::new(None::<&str>, "id"), &format!("the key's scope {missing}"));
    let blank = "has an empty or blank part: leave it out, or pass `None`";
    check_message(Key::new("f", ""), &format!("the key's id {blank}"));
    check_message(Key::new("f", " \t "), &format!("the key's id {blank}"));
    check_message(Key::new("f", ("a", "")), &format!("the key's id {blank}"));
    check_message(Key::new("f", &b""[..]), &format!("the key's id {blank}"));
    check_message(Key::new("", "id"), &format!("the key's scope {blank}"));
    let effect = Key::new("f", "id").unwrap().effect("");
    check_message(effect, &format!("the effect's name {blank}"));
}

#[test]
fn missing_is_told_apart_from_malformed() {
    assert!(Key::new("f", "").unwrap_err().is_missing());
    assert!(Key::new("f", None::<u8>).unwrap_err().is_missing());
    assert!(!Key::new("f", "a\nb").unwrap_err().is_missing());
    assert!(!Key::new("f", "x".repeat(ID_BYTES_MAX + 1)).unwrap_err().is_missing());
}

#[test]
fn a_control_character_is_refused() {
    let message = "the key's id contains a control character: hash or encode the value first";
    for text in ["a\nb", "a\rb", "\0", "a\u{7f}", "a\u{85}"] {
        check_message(Key::new("f", format!("x{text}")), message);
    }
}

#[test]
fn limits_hold_to_the_byte() {
    let text = |length| "x".repeat(length);
    assert!(Key::new(text(SCOPE_BYTES_MAX), text(ID_BYTES_MAX)).is_ok());
    check_message(
        Key::new(text(SCOPE_BYTES_MAX + 1), "id"),
        "the key's scope is longer than 512 bytes: hash the value first",
    );
    check_message(
        Key::new("f", (text(ID_BYTES_MAX), 1)),
        "the key's id is longer than 1024 bytes: hash the value first",
    );
    let key = Key::new("f", "id").unwrap();
    assert!(key.effect(text(EFFECT_BYTES_MAX)).is_ok());
    assert!(key.effect(text(EFFECT_BYTES_MAX + 1)).is_err());
    assert!(Key::new("f", vec![1; PARTS_MAX]).is_ok());
    check_message(Key::new("f", vec![1; PARTS_MAX + 1]), "the key's id has more than 16 parts");
}

#[test]
fn effects_below_effects_come_to_an_end() {
    let mut key = Key::new("f", "id").unwrap();
    let depth = (0..100).take_while(|_| match key.effect("x".repeat(EFFECT_BYTES_MAX)) {
        Ok(below) => {
            key = below;
            true
        }
        Err(_) => false,
    });
    assert_eq!(depth.count(), 7);
}

/// Everything that a joined or untyped key would confuse.
#[test]
fn lists_that_look_alike_have_identities_of_their_own() {
    let key = |scope: &[&str], id: Vec<Part>| {
        Key::new(scope.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>(), id).unwrap()
    };
    let text = |it: &str| Part::Text(it.to_owned());
    let keys = [
        key(&["a/b"], vec![text("c")]),
        key(&["a"], vec![text("b/c")]),
        key(&["a", "b"], vec![text("c")]),
        key(&["a"], vec![text("b"), text("c")]),
        key(&["a"], vec![text("bc")]),
        key(&["a"], vec![text("b:c")]),
        key(&["ab"], vec![text("c")]),
        key(&["a"], vec![text("1")]),
        key(&["a"], vec![Part::Integer(1)]),
        key(&["a"], vec![Part::Boolean(true)]),
        key(&["a"], vec![Part::Bytes(vec![1])]),
        key(&["a"], vec![Part::Bytes(b"1".to_vec())]),
        key(&["a"], vec![text("null"), Part::Null]),
        key(&["a"], vec![Part::Null, text("null")]),
        key(&["a"], vec![text("null")]),
        key(&["a"], vec![text("b")]).effect("c").unwrap(),
        key(&["a"], vec![text("b")]).effect("c").unwrap().effect("d").unwrap(),
        key(&["a"], vec![text("b")]).effect(("c", "d")).unwrap(),
        key(&["a"], vec![text("b#c")]),
        key(&["é"], vec![text("b")]),
        key(&["e\u{301}"], vec![text("b")]),
    ];
    let identities: HashSet<_> = keys.iter().map(|it| *it.identity()).collect();
    assert_eq!(identities.len(), keys.len());
}

/// Every scope and id made of these words, one or two of each.
fn check_no_two_share_an_identity(words: &[Part]) {
    let one = words.iter().map(|it| vec![it.clone()]);
    let two = words.iter().flat_map(|a| words.iter().map(|b| vec![a.clone(), b.clone()]));
    let lists: Vec<Vec<Part>> = one.chain(two).collect();
    let mut owners = HashMap::new();
    for scope in &lists {
        for id in &lists {
            let key = Key::new(scope.clone(), id.clone()).expect("valid parts");
            let earlier = owners.insert(*key.identity(), (scope, id));
            assert_eq!(earlier, None, "shared with {scope:?} {id:?}");
        }
    }
}

#[test]
fn text_with_delimiters_never_shares_an_identity() {
    let words = ["a", "b", "/", ":", "#", "|", "a/", "/a", "a:b", "ab", "a#b"];
    check_no_two_share_an_identity(&words.map(|it| Part::Text(it.to_owned())));
}

/// Bytes may imitate counts, tags and lengths; they stay within their part all the same.
#[test]
fn bytes_that_imitate_the_framing_never_share_an_identity() {
    let words: [&[u8]; 12] = [
        &[7],
        &[1],
        &[4],
        &[7, 1, 4, 7],
        &[7, 4, 7],
        &[7, 1, 4, 0, 1, 7],
        &[7, 4, 0, 1, 7],
        &[1, 4],
        &[1, 4, 7],
        &[0, 1],
        &[4, 0, 1, 7],
        &[2, 4, 7, 4, 7],
    ];
    check_no_two_share_an_identity(&words.map(|it| Part::Bytes(it.to_vec())));
}

#[test]
fn integers_of_every_width_are_the_same_value() {
    let identity = |key: Result<Key, KeyError>| *key.unwrap().identity();
    let seven = identity(Key::new("f", 7_u8));
    assert_eq!(seven, identity(Key::new("f", 7_i128)));
    assert_eq!(seven, identity(Key::new("f", 7_usize)));
    assert_eq!(seven, identity(Key::new("f", Some(7_i64))));
    for number in [0, 1, -1, 127, 128, -128, -129, 255, 256, i128::MAX, i128::MIN] {
        assert_eq!(Key::new("f", number).unwrap().id(), number.to_string());
    }
}

#[test]
fn bytes_that_are_no_key_are_refused() {
    let key = Key::new(("orders", 7), ("a", None::<u8>, true)).unwrap().effect("charge").unwrap();
    let bytes = key.preimage();
    for length in 0..bytes.len() {
        let cut = Key::from_preimage(&bytes[..length]);
        // A cut between two lists is a key, but another one.
        assert!(cut.is_err() || cut.unwrap() != key, "{length} bytes");
    }
    for (what, preimage) in [
        ("a newer version", vec![2, 1, 1, 0, 1, b'f', 1, 1, 0, 1, b'i']),
        ("an unknown tag", vec![1, 1, 9, 0, 1, b'f', 1, 1, 0, 1, b'i']),
        ("a blank part", vec![1, 1, 1, 0, 1, b' ', 1, 1, 0, 1, b'i']),
        ("text that is not UTF-8", vec![1, 1, 1, 0, 1, 0xff, 1, 1, 0, 1, b'i']),
        ("nothing but null", vec![1, 1, 1, 0, 1, b'f', 1, 0, 0, 0]),
        ("a number with a byte too many", vec![1, 1, 1, 0, 1, b'f', 1, 2, 0, 2, 0, 7]),
        ("a boolean that is neither", vec![1, 1, 1, 0, 1, b'f', 1, 3, 0, 1, 2]),
        ("an empty list", vec![1, 1, 1, 0, 1, b'f', 0]),
    ] {
        check_message(
            Key::from_preimage(&preimage),
            "the key's id cannot be read back: the stored bytes are not a key",
        );
        println!("refused: {what}");
    }
}

proptest! {
    #![proptest_config(crate::given::config())]

    #[test]
    fn different_parts_never_share_an_identity(
        one in (some_parts(), some_parts()),
        two in (some_parts(), some_parts()),
    ) {
        let key = |(scope, id): &(Vec<Part>, Vec<Part>)| Key::new(scope.clone(), id.clone()).expect("valid parts");
        let (first, second) = (key(&one), key(&two));
        prop_assert_eq!(one == two, first.identity() == second.identity());
        prop_assert_eq!(one == two, first.preimage() == second.preimage());
    }

    /// Moving the border between scope, id and effect gives another key.
    #[test]
    fn where_a_list_ends_matters(parts in proptest::collection::vec("[a-c]{1,2}", 4..7)) {
        let mut identities = HashSet::new();
        let mut keys = 0;
        for scope in 1..parts.len() {
            for id in scope + 1..=parts.len() {
                let key = Key::new(parts[..scope].to_vec(), parts[scope..id].to_vec()).expect("valid parts");
                let key = if id < parts.len() { key.effect(parts[id..].to_vec()).expect("valid parts") } else { key };
                identities.insert(*key.identity());
                keys += 1;
            }
        }
        prop_assert_eq!(identities.len(), keys);
    }

    #[test]
    fn a_key_comes_back_from_its_preimage(key in any_key()) {
        let back = Key::from_preimage(key.preimage()).expect("a key's own preimage");
        prop_assert_eq!(back.identity(), key.identity());
        prop_assert_eq!(back.preimage(), key.preimage());
        prop_assert_eq!(back.to_string(), key.to_string());
        prop_assert_eq!(back.effect_path(), key.effect_path());
    }

    #[test]
    fn any_bytes_are_read_as_a_key_or_refused_without_panic(bytes in proptest::collection::vec(0..6_u8, 0..40)) {
        let bytes = [&[1][..], &bytes].concat();
        if let Ok(key) = Key::from_preimage(&bytes) {
            prop_assert_eq!(key.preimage(), &bytes[..]);
            prop_assert!(!key.to_string().is_empty());
        }
    }
}
