//! Where keys are found, and where they are not.

use crate::given::{headers, order};
use semel_core::key::{Key, PARTS_MAX, Part};
#[cfg(feature = "jmespath")]
use semel_events::expression::SIGNS_MAX;
use semel_events::{
    event::Event,
    expression::{
        BadExpression, EXPRESSION_BYTES_MAX, Expression, Input, NotFound, PART_BYTES_MAX, is_missing,
    },
};

fn event(data: &str) -> Event {
    order().subject("order/42").extension("tenant", "acme").json(data.to_owned()).build().unwrap()
}

fn parts(expression: &str, data: &str) -> Result<Vec<Part>, NotFound> {
    let headers = headers(&[("x-order", "o-1"), ("x-twice", "1"), ("x-twice", "2"), ("x-blank", " ")]);
    let expression: Expression = expression.parse().unwrap();
    expression.parts(&Input::event(&event(data), &headers))
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

#[test]
fn a_pointer_finds_what_it_points_at() {
    const DATA: &str = r#"{"order": {"id": "o-1", "lines": [{"n": 1}, {"n": 2}]}, "a/b": 1, "m~n": 2, "": 3,
        "big": 170141183460469231731687303715884105727, "yes": true, "esc\u0061pe": "\u00e9"}"#;
    let check = |pointer, expected| assert_eq!(parts(pointer, DATA), Ok(vec![expected]), "{pointer}");
    check("/data/order/id", text("o-1"));
    check("/data/order/lines/1/n", Part::Integer(2));
    check("/data/a~1b", Part::Integer(1));
    check("/data/m~0n", Part::Integer(2));
    check("/data/", Part::Integer(3));
    check("/data/big", Part::Integer(i128::MAX));
    check("/data/yes", Part::Boolean(true));
    check("/data/escape", text("é"));
    check("/subject", text("order/42"));
    check("/tenant", text("acme"));
    for missing in
        ["/data/none", "/data/order/lines/2", "/data/order/lines/-", "/data/order/lines/01", "/id/x", "/none"]
    {
        check(missing, Part::Null);
    }
}

#[test]
fn attributes_headers_and_literals_are_found() {
    let check =
        |expression, expected| assert_eq!(parts(expression, "{}"), Ok(vec![expected]), "{expression}");
    check("id", text("evt-1"));
    check("type", text("order.created"));
    check("tenant", text("acme"));
    check("nothing", Part::Null);
    check("header:x-order", text("o-1"));
    check("header:X-Order", text("o-1"));
    check("header:x-none", Part::Null);
    check("header:x-blank", Part::Null);
    check("literal:a:b c", text("a:b c"));
    let twice = NotFound::Ambiguous("header:x-twice".into());
    assert_eq!(parts("header:x-twice", "{}"), Err(twice));
}

#[test]
fn what_is_missing_is_missing() {
    for data in [
        "{}",
        r#"{"id":null}"#,
        r#"{"id":""}"#,
        r#"{"id":" "}"#,
        r#"{"id":[]}"#,
        r#"{"id":[null]}"#,
        r#"{"id":{"a":null}}"#,
    ] {
        let found = parts("/data/id", data).unwrap();
        assert!(is_missing(&found), "{data}");
        assert!(Key::new("f", found).unwrap_err().is_missing(), "{data}");
    }
    let none = order().build().unwrap();
    let pointer: Expression = "/data/id".parse().unwrap();
    assert_eq!(pointer.parts(&Input::event(&none, &headers(&[]))), Ok(vec![Part::Null]));
}

#[test]
fn a_composite_is_missing_if_all_of_it_is() {
    let all = Expression::all(["/data/a", "tenant", "/data/b"]).unwrap();
    let event = event(r#"{"b": 7}"#);
    let found = all.parts(&Input::event(&event, &headers(&[]))).unwrap();
    assert_eq!(found, [Part::Null, text("acme"), Part::Integer(7)]);
    assert!(!is_missing(&found));
    let none = Expression::all(["/data/a", "header:x"]).unwrap();
    assert!(is_missing(&none.parts(&Input::event(&event, &headers(&[]))).unwrap()));
}

#[test]
fn two_values_never_become_one_key() {
    let long = |end: char| format!("\"{}{end}\"", "x".repeat(PART_BYTES_MAX));
    let values = [
        "1".to_owned(),
        "\"1\"".to_owned(),
        "1.0".to_owned(),
        "1e0".to_owned(),
        "true".to_owned(),
        "\"true\"".to_owned(),
        "[1]".to_owned(),
        "[\"1\"]".to_owned(),
        "{\"a\":1}".to_owned(),
        long('a'),
        long('b'),
        "\"a\\nb\"".to_owned(),
        "170141183460469231731687303715884105728".to_owned(),
        "170141183460469231731687303715884105729".to_owned(),
    ];
    let mut keys = Vec::new();
    for value in &values {
        let found = parts("/data/id", &format!("{{\"id\":{value}}}")).unwrap();
        let key = Key::new("f", found).unwrap();
        assert!(!keys.contains(&key), "{value}");
        keys.push(key);
    }
    let ordered = |data| parts("/data/id", data).unwrap();
    assert_eq!(ordered(r#"{"id":{"a":1,"b":2}}"#), ordered(r#"{"id":{ "b":2, "a":1 }}"#));
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    for data in [r#"{"id":1,"id":2}"#, r#"{"id":{"a":1,"a":2}}"#] {
        assert_eq!(parts("/data/id", data), Err(NotFound::Ambiguous("/data/id".into())), "{data}");
    }
    assert_eq!(parts("/data/id", "not json"), Err(NotFound::NotJson("/data/id".into())));
}

#[test]
fn several_parts_have_one_text_of_their_own() {
    let text = |texts: &[&str]| {
        let expression = Expression::all(texts.iter().copied()).unwrap();
        expression.text(&Input::event(&event(r#"{"n":7,"yes":true}"#), &headers(&[]))).unwrap()
    };
    assert_eq!(text(&["/data/n"]).as_deref(), Some("7"));
    assert_eq!(text(&["/data/yes"]).as_deref(), Some("true"));
    assert_eq!(text(&["/data/none", "none"]), None);
    let shifted = [
        text(&["literal:a:b", "literal:c"]),
        text(&["literal:a", "literal:b:c"]),
        text(&["literal:a", "literal:b", "literal:c"]),
    ];
    assert!(shifted[0] != shifted[1] && shifted[1] != shifted[2] && shifted[0] != shifted[2]);
}

#[test]
fn what_is_no_expression_is_refused_with_the_reason() {
    let check = |text: &str, expected: BadExpression| {
        assert_eq!(text.parse::<Expression>().unwrap_err(), expected, "{text}");
    };
    check("", BadExpression::Length);
    check(&"a".repeat(EXPRESSION_BYTES_MAX + 1), BadExpression::Length);
    check("/a~", BadExpression::Pointer);
    check("/a~2", BadExpression::Pointer);
    check("header:", BadExpression::Header);
    check("header:a b", BadExpression::Header);
    check("literal:", BadExpression::Kind);
    check("$.data.id", BadExpression::Kind);
    check("Type", BadExpression::Kind);
    check("other:x", BadExpression::Kind);
    assert!("a".repeat(EXPRESSION_BYTES_MAX).parse::<Expression>().is_ok());
    assert_eq!(Expression::all([]).unwrap_err(), BadExpression::Parts);
    assert!(Expression::all(vec!["id"; PARTS_MAX]).is_ok());
    assert_eq!(Expression::all(vec!["id"; PARTS_MAX + 1]).unwrap_err(), BadExpression::Parts);
}

#[cfg(not(feature = "jmespath"))]
#[test]
fn without_jmespath_it_is_said_so() {
    assert_eq!("jmespath:data.id".parse::<Expression>().unwrap_err(), BadExpression::NoJmespath);
}

#[cfg(feature = "jmespath")]
#[test]
fn a_jmespath_finds_what_it_names() {
    const DATA: &str = r#"{"order": {"id": "o-1", "n": 7}, "lines": [1, 2], "big": 18446744073709551616}"#;
    let check = |path, expected: &[Part]| assert_eq!(parts(path, DATA).as_deref(), Ok(expected), "{path}");
    check("jmespath:data.order.id", &[text("o-1")]);
    check(
        "jmespath:[data.order.id, data.order.n, type]",
        &[text("o-1"), Part::Integer(7), text("order.created")],
    );
    check("jmespath:data.lines", &[Part::Integer(1), Part::Integer(2)]);
    check("jmespath:data.none", &[Part::Null]);
    check("jmespath:[data.none, data.other]", &[Part::Null, Part::Null]);
    check("jmespath:tenant", &[text("acme")]);
    assert!(matches!(parts("jmespath:data.big", DATA), Err(NotFound::Jmespath(_))), "it may not be exact");
    assert!(matches!(parts("jmespath:abs(type)", DATA), Err(NotFound::Jmespath(_))));
}

/// Invariant 14: what one expression finds never passes for what the next one does.
#[cfg(feature = "jmespath")]
#[test]
fn lists_beside_other_expressions_do_not_run_into_them() {
    let both = Expression::all(["jmespath:data.a", "jmespath:data.b"]).unwrap();
    let found = |data| both.parts(&Input::event(&event(data), &headers(&[]))).unwrap();
    let texts = |data| both.text(&Input::event(&event(data), &headers(&[]))).unwrap();
    let all = [
        r#"{"a":["x","y"],"b":"z"}"#,
        r#"{"a":"x","b":["y","z"]}"#,
        r#"{"a":["x","y","z"],"b":[]}"#,
        r#"{"a":[],"b":["x","y","z"]}"#,
        r#"{"a":["x"],"b":["y","z"]}"#,
        r#"{"a":"x","b":"y"}"#,
        r#"{"a":["x"],"b":"y"}"#,
        r#"{"a":"x","b":["y"]}"#,
        r#"{"a":"x"}"#,
        r#"{"b":"x"}"#,
    ];
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            let keys = [one, other].map(|data| Key::new("f", found(data)).unwrap());
            assert_ne!(keys[0], keys[1], "{one} and {other}");
            assert_ne!(texts(one), texts(other), "{one} and {other}");
        }
    }
    assert_eq!(found(r#"{"a":"x","b":7}"#), [text("x"), Part::Integer(7)], "as they always were");
    assert!(is_missing(&found(r#"{"a":[null],"b":[]}"#)));
    let alone = Expression::all(["jmespath:data.a"]).unwrap();
    let data = event(r#"{"a":["x","y"]}"#);
    assert_eq!(alone.parts(&Input::event(&data, &headers(&[]))).unwrap(), [text("x"), text("y")]);
}

#[cfg(feature = "jmespath")]
#[test]
fn what_is_no_jmespath_is_refused_with_its_place() {
    for (text, place) in [
        ("[", "character 2)"),
        ("data.", "character 6)"),
        ("data..id", "character 6)"),
        ("lenght(data)", "character 7)"),
        ("length(type, id)", "character 7)"),
        ("join(',')", "character 5)"),
        ("", "character 1)"),
    ] {
        let Err(BadExpression::Jmespath(told)) = format!("jmespath:{text}").parse::<Expression>() else {
            panic!("`{text}` was read");
        };
        assert!(told.ends_with(place), "`{text}`: {told}");
    }
}

/// Reading and following an expression call themselves: neither must end a thread.
#[cfg(feature = "jmespath")]
#[test]
fn a_jmespath_that_is_as_deep_as_it_may_be_needs_little_stack() {
    let read = || {
        let mut read = 0;
        for (piece, end) in [
            ("(", ")"),
            ("!", ""),
            ("[", "]"),
            ("{a:", "}"),
            ("a.", ""),
            ("a[?", "]"),
            ("a||", ""),
            ("a&&", ""),
            ("a<", ""),
            ("a|", ""),
            ("a[*].", ""),
            ("not_null(", ")"),
        ] {
            for times in [SIGNS_MAX / 3, SIGNS_MAX / 2, SIGNS_MAX, EXPRESSION_BYTES_MAX / 10] {
                let text = format!("jmespath:{}a{}", piece.repeat(times), end.repeat(times));
                match text.parse::<Expression>() {
                    Ok(path) => {
                        read += 1;
                        let _ = path.parts(&Input::event(&event("{}"), &headers(&[])));
                    }
                    Err(_) => assert!(times > SIGNS_MAX / 3 || piece.ends_with('<'), "{text}"),
                }
            }
        }
        assert!(read > 12, "most can be read");
    };
    // Half of what threads have, and without optimisation.
    std::thread::Builder::new().stack_size(1 << 20).spawn(read).unwrap().join().unwrap();
}

#[cfg(feature = "jmespath")]
#[test]
fn a_jmespath_has_so_many_signs_and_no_more() {
    let chain = |signs: usize| format!("jmespath:a{}", ".a".repeat(signs)).parse::<Expression>();
    assert!(chain(SIGNS_MAX).is_ok());
    assert!(matches!(chain(SIGNS_MAX + 1), Err(BadExpression::Jmespath(_))));
}
