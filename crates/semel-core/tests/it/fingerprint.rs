//! Fingerprints: equal payloads share one, and nothing else does.

use proptest::prelude::*;
use semel_core::fingerprint::{Fingerprint, JSON_DEPTH_MAX};
use serde_json::Value;

fn of(text: &str) -> Fingerprint {
    Fingerprint::of_json(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn check_refused(text: impl AsRef<[u8]>, message: &str) {
    let error = Fingerprint::of_json(text.as_ref()).expect_err(message);
    assert_eq!(error.to_string(), message);
}

#[test]
fn what_does_not_matter_does_not_change_it() {
    for (one, two) in [
        (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        (r#"{"a":1,"b":2}"#, "\r\n { \"a\" : 1 ,\t\"b\" : 2 } "),
        (r#"{"a":{"x":[],"y":{}},"b":2}"#, r#"{"b":2,"a":{"y":{ },"x":[ ]}}"#),
        (r#""A""#, r#""\u0041""#),
        (r#""a/b""#, r#""a\/b""#),
        (r#""\n""#, r#""\u000A""#),
        (r#""\"\\""#, r#""\u0022\u005c""#),
        (r#""😀""#, r#""\ud83d\ude00""#),
        (r#"{"\u0061":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        (r#"[{"b":1,"a":2},{"d":1,"c":2}]"#, r#"[{"a":2,"b":1},{"c":2,"d":1}]"#),
        (r#"{"c":{"z":1,"y":{"q":1,"p":2}},"a":0}"#, r#"{"a":0,"c":{"y":{"p":2,"q":1},"z":1}}"#),
    ] {
        assert_eq!(of(one), of(two), "{one} and {two}");
    }
}

#[test]
fn parts_are_hashed_in_a_row_and_json_after_them_as_json() {
    let of = |parts: &[&[u8]], json: Option<&[u8]>| Fingerprint::of_parts(parts, json).unwrap();
    assert_eq!(of(&[b"ab", b"c"], None), of(&[b"a", b"bc"], None));
    assert_ne!(of(&[b"ab", b"c"], None), of(&[b"c", b"ab"], None));
    assert_eq!(of(&[b"a"], Some(br#"{"x":1,"y":2}"#)), of(&[b"a"], Some(br#"{"y":2, "x":1}"#)));
    assert_ne!(of(&[b"a"], Some(b"1")), of(&[b"b"], Some(b"1")));
    assert!(Fingerprint::of_parts(&[b"a"], Some(b"{")).is_err());
    let kinds = [
        of(&[b"1"], None),
        of(&[b""], Some(b"1")),
        Fingerprint::of_bytes(b"1"),
        Fingerprint::of_json(b"1").unwrap(),
    ];
    for (at, one) in kinds.iter().enumerate() {
        assert!(!kinds[..at].contains(one), "two kinds share a hash");
    }
}

#[test]
fn what_matters_changes_it() {
    for (one, two) in [
        ("1", "1.0"),
        ("1", "1e0"),
        ("1e0", "1E0"),
        ("0", "-0"),
        ("9007199254740992", "9007199254740993"),
        ("1.00000000000000000000001", "1.00000000000000000000002"),
        ("1e999", "1e998"),
        ("1", "\"1\""),
        ("null", "\"null\""),
        ("true", "false"),
        ("[1,2]", "[2,1]"),
        ("[]", "{}"),
        ("[[]]", "[]"),
        ("[1,[2]]", "[[1],2]"),
        (r#"{"a":"b"}"#, r#"{"b":"a"}"#),
        (r#"{"a":null}"#, "{}"),
        (r#"{"a":{"b":1}}"#, r#"{"a":1,"b":{}}"#),
        (r#""é""#, r#""e\u0301""#),
        (r#""a""#, r#""a ""#),
        (r#"["a","b"]"#, r#"["a\",\"b"]"#),
    ] {
        assert_ne!(of(one), of(two), "{one} and {two}");
    }
}

#[test]
fn no_payload_bytes_and_json_never_meet() {
    for text in ["{}", "null", "1", "\"\""] {
        assert_ne!(Fingerprint::of_bytes(text.as_bytes()), of(text));
    }
    assert_ne!(Fingerprint::EMPTY, Fingerprint::of_bytes(b""));
    assert_ne!(Fingerprint::EMPTY, Fingerprint::of_bytes(&[0]));
}

/// What is stored is compared with what is computed for years: these never change.
#[test]
fn fingerprints_are_the_ones_in_the_field() {
    let check = |fingerprint: Fingerprint, hex: &str| assert_eq!(fingerprint.to_string(), hex);
    check(Fingerprint::EMPTY, "v1:6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    check(
        Fingerprint::of_bytes(b"payload"),
        "v1:394676b889dac16e66395c6d4b1715ea1c9526e95ab4847cad92fa63409f1d9a",
    );
    check(
        of(r#"{"b":[1.50,"\u0041\n"],"a":null}"#),
        "v1:e6fcf8c478cd8cf04a1e514afe7899eb64bfe543e4a08f91a1891258c21a56ef",
    );
}

/// A large text goes another way to the same hash.
#[test]
fn a_text_that_is_long_has_the_fingerprint_that_it_has_when_it_is_short() {
    let space = " ".repeat(10_000);
    for text in [
        r#"{"b":[1.50,"\u0041\n"],"a":null}"#,
        r#"{"b":[{"d":1,"c":{}}],"a":{"z":"\"","y":[[],"]"]}}"#,
        r#"["x"]"#,
    ] {
        let long = format!("{space}{text}{space}");
        assert_eq!(of(&long), of(text), "{text}");
        let inside = text.replacen('[', &format!("[{space}{space}"), 1);
        assert_eq!(of(&inside), of(text), "{text}");
    }
    let members = |from: u32, to: u32| (from..to).map(|n| format!("\"{n:04}\":[{n}]")).collect::<Vec<_>>();
    let (one, other) = (members(0, 2_000), [members(1_000, 2_000), members(0, 1_000)].concat());
    let object = |it: &[String]| format!("{{{}}}", it.join(","));
    assert_eq!(of(&object(&one)), of(&object(&other)));
    assert_eq!(
        of(&object(&one)).to_string(),
        "v1:ec1ebc52600cb0ce2ec235f8fcd1c0789b414e21a1f0c4bc2d613ebf8267d991",
    );
    assert_ne!(of(&object(&one)), of(&object(&one[1..])));
    check_refused(
        object(&[other, members(1_500, 1_501)].concat()),
        "byte 26891 of the payload repeats the name of a member: readers disagree on which one counts",
    );
}

#[test]
fn what_readers_could_read_differently_is_refused() {
    check_refused("", "byte 0 of the payload is where the JSON ends too early");
    check_refused("[1", "byte 2 of the payload is where the JSON ends too early");
    check_refused("[1,]", "byte 3 of the payload is not where a value can stand in JSON");
    check_refused("[1 2]", "byte 3 of the payload is not where `,` or `]` can stand in JSON");
    check_refused("{1:2}", "byte 1 of the payload is not where the name of a member can stand in JSON");
    check_refused(r#"{"a" 1}"#, "byte 5 of the payload is not where `:` can stand in JSON");
    check_refused("NaN", "byte 0 of the payload is not where a value can stand in JSON");
    check_refused("01", "byte 1 of the payload follows the end of the JSON");
    check_refused("1.", "byte 2 of the payload is where the JSON ends too early");
    check_refused("{} x", "byte 3 of the payload follows the end of the JSON");
    check_refused(
        r#"{"a":1,"b":2,"\u0061":3}"#,
        "byte 13 of the payload repeats the name of a member: readers disagree on which one counts",
    );
    check_refused(r#""\x""#, "byte 1 of the payload begins an escape that JSON does not have");
    check_refused(r#""\u12g4""#, "byte 1 of the payload begins an escape that JSON does not have");
    let surrogate = "byte 1 of the payload begins a lone surrogate, which no character is written with";
    check_refused(r#""\ud83d""#, surrogate);
    check_refused(r#""\ud83d\n""#, surrogate);
    check_refused(r#""\ud83d\ud83d""#, surrogate);
    check_refused(r#""\ude00""#, surrogate);
    check_refused("\"\n\"", "byte 1 of the payload is an unescaped control character in a JSON string");
    check_refused(b"\"\xff\"", "byte 1 of the payload is not UTF-8");
    check_refused(
        b"\xef\xbb\xbf{}",
        "byte 0 of the payload begins a byte order mark, which JSON must not have",
    );
}

#[test]
fn nesting_ends_at_the_limit_and_not_before() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Fingerprint::of_json(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
    check_refused(nested(JSON_DEPTH_MAX + 1), "byte 128 of the payload is nested deeper than 128");
    check_refused(nested(1_000_000), "byte 128 of the payload is nested deeper than 128");
    let objects = r#"{"a":"#.repeat(JSON_DEPTH_MAX) + "1" + &"}".repeat(JSON_DEPTH_MAX);
    assert!(Fingerprint::of_json(objects.as_bytes()).is_ok());
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no other", |it| it.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::hash_map(".{0,3}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes a value with its members in another order and space wherever it may stand.
fn disguised(value: &Value, seed: u64, out: &mut String) {
    let space = [" ", "", "\n", "\t "][(seed % 4) as usize];
    let further = |index: usize| seed.rotate_left(7).wrapping_mul(31).wrapping_add(index as u64);
    out.push_str(space);
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                disguised(item, further(index), out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            if !members.is_empty() {
                let middle = seed as usize % members.len();
                members.rotate_left(middle);
            }
            out.push('{');
            for (index, (name, item)) in members.into_iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                let escaped: Vec<_> = name.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
                let name = if seed.is_multiple_of(3) {
                    format!("\"{}\"", escaped.concat())
                } else {
                    Value::from(name.clone()).to_string()
                };
                out.push_str(&name);
                out.push_str(space);
                out.push(':');
                disguised(item, further(index), out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
    out.push_str(space);
}

proptest! {
    #![proptest_config(crate::given::config())]

    #[test]
    fn order_and_space_never_matter(value in any_json(), seed in any::<u64>()) {
        let mut text = String::new();
        disguised(&value, seed, &mut text);
        prop_assert_eq!(of(&value.to_string()), of(&text), "{}", text);
    }

    #[test]
    fn different_values_have_different_fingerprints(one in any_json(), two in any_json()) {
        // As text, because `-0.0` and `0.0` are equal values.
        let (first, second) = (one.to_string(), two.to_string());
        prop_assert_eq!(first == second, of(&first) == of(&second));
    }

    #[test]
    fn any_changed_scalar_changes_it(value in any_json(), other in any::<i32>()) {
        let text = value.to_string();
        let changed = Value::Array(vec![value, Value::from(other)]).to_string();
        let again = changed.replace(&format!(",{other}]"), &format!(",{}]", i64::from(other) + 1));
        prop_assert_ne!(of(&text), of(&changed));
        prop_assert_ne!(of(&changed), of(&again));
    }

    /// Whatever one of the two takes for JSON, the other does, but for what is refused on purpose.
    #[test]
    fn it_agrees_with_serde_json_on_what_is_json(text in "[\\[\\]{}\",:0-9.eE+\\- \\\\utrfalsn\u{e9}\u{1}]{0,12}") {
        let ours = Fingerprint::of_json(text.as_bytes());
        let theirs = serde_json::from_str::<Value>(&text);
        match (&ours, &theirs) {
            (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("number out of range"), "{}: {}", text, error),
            (Err(error), Ok(_)) => prop_assert!(error.to_string().contains("repeats the name"), "{}: {}", text, error),
        }
    }

    /// Damage to a text that was JSON: closer to the border than any random text.
    #[test]
    fn it_agrees_with_serde_json_on_damaged_json(value in any_json(), index in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = value.to_string().into_bytes();
        let index = index.index(text.len());
        text[index] = byte;
        let ours = Fingerprint::of_json(&text);
        let theirs = serde_json::from_slice::<Value>(&text);
        match (&ours, &theirs) {
            (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("number out of range"), "{:?}: {}", text, error),
            (Err(error), Ok(_)) => prop_assert!(error.to_string().contains("repeats the name"), "{:?}: {}", text, error),
        }
    }

    #[test]
    fn any_bytes_are_fingerprinted_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = Fingerprint::of_json(&bytes);
    }
}
