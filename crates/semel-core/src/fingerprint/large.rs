//! Canonical JSON of a large text, hashed piece by piece instead of being written.
//!
//! 1. What is hashed is to the byte what [`super::json`] would have written, so it does not matter which way a text went.
//! 2. The text is read twice. The first time it is checked, and it is noted where its large values are. The second time it is
//!    written to a buffer, which is hashed whenever it is full; long strings and numbers are hashed where they stand.
//! 3. What is small is written to the buffer as [`super::json`] writes it, and put in order there. Of a large object whose members
//!    are not in order, it is noted where they stand: four bytes each, while the object is written.
//! 4. So beside the text there is the buffer, of a few times [`SMALL_BYTES_MAX`]; the notes of large values, which are at most
//!    [`JSON_DEPTH_MAX`](super::JSON_DEPTH_MAX) deep and one after the other, an eighth of the text if somebody means it badly; and
//!    those of members, two thirds of it if it is one object of the shortest members there are, in disorder. JSON as programs
//!    write it has objects of some kilobytes at most, and few large ones: it takes the buffer and nothing else.
//!
//! Of several faults in a text another may be told than [`super::json`] tells.

use super::{
    json::{Fault, Form, NotJson, Reader, Written},
    strings::{Pieces, behind, compare},
};
use crate::{sabotage::is_on, sha256::Sha256};
use std::{cmp::Ordering, ops::Range};

/// Largest value that is written whole before it is hashed.
pub(super) const SMALL_BYTES_MAX: usize = 16 * 1024;

/// Whether a text is hashed like this. Places in it must fit into 32 bits.
pub(super) fn is_large(text: &[u8]) -> bool {
    text.len() > SMALL_BYTES_MAX && u32::try_from(text.len()).is_ok() && !is_on("large_json_is_copied")
}

/// Hashes the canonical form of a JSON text.
pub(super) fn hash_canonical(hash: Sha256, text: &[u8]) -> Result<Sha256, NotJson> {
    hash_piecewise(hash, text, SMALL_BYTES_MAX)
}

/// With values of so many bytes written whole.
fn hash_piecewise<H: Hash>(hash: H, text: &[u8], small_bytes_max: usize) -> Result<H, NotJson> {
    let mut reader = Reader { text, at: 0, form: Surveyed { small_bytes_max, large: Vec::new() } };
    reader.whole()?;
    let mut large = reader.form.large;
    large.sort_unstable_by_key(|it| it.start);
    let form = Written { out: Vec::with_capacity(small_bytes_max), members: Vec::new() };
    let mut writer = Writer { reader: Reader { text, at: 0, form }, small_bytes_max, large, hash };
    writer.reader.skip_space();
    writer.value()?;
    writer.flush();
    Ok(writer.hash)
}

/// What takes the canonical form, piece by piece.
trait Hash {
    fn update(&mut self, piece: &[u8]);
}

impl Hash for Sha256 {
    fn update(&mut self, piece: &[u8]) {
        Self::update(self, piece);
    }
}

/// A large value: where it stands in the text.
#[derive(Clone, Copy)]
struct Large {
    start: u32,
    end: u32,
}

/// What was found out about a text.
struct Surveyed {
    small_bytes_max: usize,
    large: Vec<Large>,
}

impl Form for Surveyed {
    type Object = ();

    fn put(&mut self, _: &[u8]) {}

    fn push(&mut self, _: u8) {}

    fn length(&self) -> usize {
        0
    }

    fn object(&mut self) {}

    fn named(&mut self, _: usize, _: usize) {}

    fn member(&mut self) {}

    fn ordered(&mut self, (): (), place: Range<usize>) -> Result<(), NotJson> {
        self.was_at(place);
        Ok(())
    }

    fn was_at(&mut self, place: Range<usize>) {
        if place.len() > self.small_bytes_max {
            self.large.push(Large { start: place.start as u32, end: place.end as u32 });
        }
    }
}

/// Writes a text that is sound.
struct Writer<'a, H> {
    /// Writes what is small.
    reader: Reader<'a, Written>,
    small_bytes_max: usize,
    /// In the order of the text.
    large: Vec<Large>,
    hash: H,
}

impl<H: Hash> Writer<'_, H> {
    fn large_at(&self, at: usize) -> Option<Large> {
        let found = self.large.binary_search_by_key(&at, |it| it.start as usize).ok()?;
        Some(self.large[found])
    }

    fn value(&mut self) -> Result<(), NotJson> {
        let Some(large) = self.large_at(self.reader.at) else {
            self.reader.value(0)?;
            self.flush_if_full();
            return Ok(());
        };
        match self.reader.peek() {
            Some(b'{') => self.object(large),
            Some(b'[') => self.array(),
            Some(b'"') => {
                self.string();
                Ok(())
            }
            Some(_) | None => {
                let number = self.reader.at..large.end as usize;
                self.reader.at = number.end;
                self.put(&self.reader.text[number]);
                Ok(())
            }
        }
    }

    fn array(&mut self) -> Result<(), NotJson> {
        self.reader.token(b'[');
        self.put(b"[");
        loop {
            self.value()?;
            self.reader.skip_space();
            if !self.reader.token(b',') {
                break;
            }
            self.put(b",");
        }
        self.reader.at += 1;
        self.put(b"]");
        Ok(())
    }

    fn object(&mut self, object: Large) -> Result<(), NotJson> {
        let names = self.names_in_order()?;
        self.reader.token(b'{');
        self.put(b"{");
        match names {
            // They are in order as they stand.
            None => loop {
                self.member()?;
                if !self.reader.token(b',') {
                    break;
                }
                self.put(b",");
            },
            Some(names) => {
                for (n, name) in names.iter().enumerate() {
                    if n > 0 {
                        self.put(b",");
                    }
                    self.reader.at = *name as usize;
                    self.member()?;
                }
            }
        }
        self.reader.at = object.end as usize;
        self.put(b"}");
        Ok(())
    }

    /// Where the names of the members of the object that stands here stand, in order, unless they are in order as they stand.
    fn names_in_order(&mut self) -> Result<Option<Vec<u32>>, NotJson> {
        let text = self.reader.text;
        let order = |a: usize, b: usize| compare(text, a, b);
        let (mut count, mut last, mut is_in_order) = (0, None, true);
        self.for_each_name(|name| {
            is_in_order &= last.is_none_or(|last| order(last, name) == Ordering::Less);
            last = Some(name);
            count += 1;
        });
        if is_in_order || is_on("large_objects_keep_their_order") {
            return Ok(None);
        }
        let mut names = Vec::with_capacity(count);
        self.for_each_name(|name| names.push(name as u32));
        names.sort_unstable_by(|a, b| order(*a as usize, *b as usize).then(a.cmp(b)));
        match names.windows(2).find(|it| order(it[0] as usize, it[1] as usize) == Ordering::Equal) {
            Some(pair) => Err(NotJson { position: pair[1] as usize, fault: Fault::Duplicate }),
            None => Ok(Some(names)),
        }
    }

    /// Tells where the name of each member of the object that stands here stands.
    fn for_each_name(&mut self, mut tell: impl FnMut(usize)) {
        let start = self.reader.at;
        self.reader.token(b'{');
        loop {
            tell(self.reader.at);
            self.reader.at = behind(self.reader.text, self.reader.at);
            self.reader.skip_space();
            self.reader.token(b':');
            self.reader.at = self.behind_value();
            self.reader.skip_space();
            if !self.reader.token(b',') {
                break;
            }
        }
        self.reader.at = start;
    }

    /// What is behind the value that stands here. Large ones are known, so that all of this looks at each byte once.
    fn behind_value(&self) -> usize {
        if let Some(large) = self.large_at(self.reader.at) {
            return large.end as usize;
        }
        let (text, mut at, mut depth) = (self.reader.text, self.reader.at, 0_usize);
        while let Some(byte) = text.get(at) {
            match byte {
                b'"' => {
                    at = behind(text, at);
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 0 => depth -= 1,
                b'}' | b']' => return at,
                b',' if depth == 0 => return at,
                _ => {}
            }
            at += 1;
        }
        at
    }

    fn member(&mut self) -> Result<(), NotJson> {
        self.string();
        self.reader.skip_space();
        self.reader.token(b':');
        self.put(b":");
        self.value()?;
        self.reader.skip_space();
        Ok(())
    }

    fn string(&mut self) {
        self.put(b"\"");
        let mut pieces = Pieces::of(self.reader.text, self.reader.at);
        for piece in pieces.by_ref() {
            self.put(piece.as_bytes());
        }
        self.reader.at = pieces.at();
    }

    fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > self.small_bytes_max {
            self.flush();
            self.hash.update(bytes);
            return;
        }
        self.reader.form.put(bytes);
        self.flush_if_full();
    }

    fn flush_if_full(&mut self) {
        if self.reader.form.out.len() >= self.small_bytes_max {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Self { reader: Reader { form: Written { out, .. }, .. }, hash, .. } = self;
        hash.update(&*out);
        out.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{super::json::canonical_after, *};
    use proptest::prelude::*;

    impl Hash for Vec<u8> {
        fn update(&mut self, piece: &[u8]) {
            self.extend_from_slice(piece);
        }
    }

    /// That both ways agree, however little is written whole, and on what there is to write.
    #[track_caller]
    fn check(text: &[u8]) {
        let (out, written) = canonical_after(Vec::new(), text);
        for small_bytes_max in [0, 1, 2, 7, 20, 60, 1_000] {
            let hashed = hash_piecewise(Vec::new(), text, small_bytes_max);
            let shown = || format!("{} with {small_bytes_max}", String::from_utf8_lossy(text));
            assert_eq!(hashed.is_ok(), written.is_ok(), "{}", shown());
            if let Ok(hashed) = hashed {
                assert_eq!(String::from_utf8_lossy(&hashed), String::from_utf8_lossy(&out), "{}", shown());
            }
        }
    }

    #[test]
    fn what_is_hashed_is_what_would_be_written() {
        for text in [
            "1",
            " \"a\" ",
            "{}",
            "[]",
            "[ ]",
            r#"{"a":1}"#,
            r#" { "b" : [ 1 , { } ] , "a" : "x" } "#,
            r#"{"b":{"d":[{"z":1,"y":[]}],"c":2},"a":{"b":"}\"],","a":"{"}}"#,
            r#"{"a!":1,"a":2,"a\"":3,"a\\":4,"a\u0000":5,"":6,"b":7}"#,
            r#"{"\u00e9":1,"e":2,"\ud83d\ude00":3,"\uffff":4}"#,
            "[\"\\u0041\\n\\u000a\\/\\b\", -0.50e+10, true, false, null]",
            "{\"\u{1f600}\":1,\"\u{ffff}\":2,\"\u{e9}\":3}",
        ] {
            check(text.as_bytes());
        }
    }

    #[test]
    fn what_is_no_json_is_refused_either_way() {
        for text in
            ["", " ", "[1,]", r#"{"a":1,"b":2,"\u0061":3}"#, r#"[{"b":{"c":1,"c":2}}]"#, "[1] 2", "{\"a\"}"]
        {
            assert!(canonical_after(Vec::new(), text.as_bytes()).1.is_err(), "{text}");
            check(text.as_bytes());
        }
        check(b"\"\xff\"");
    }

    #[test]
    fn the_deepest_nesting_is_hashed() {
        let depth = super::super::JSON_DEPTH_MAX;
        check((r#"{"b":1,"a":"#.repeat(depth) + "1" + &"}".repeat(depth)).as_bytes());
        check((r#"[0,{"b":1,"a":"#.repeat(depth / 2) + "1" + &"}]".repeat(depth / 2)).as_bytes());
        check(("[".repeat(depth + 1) + &"]".repeat(depth + 1)).as_bytes());
    }

    /// With its quotes, any character as it is or escaped.
    fn any_string() -> impl Strategy<Value = String> {
        let unit = |it: char| {
            let mut units = [0; 2];
            it.encode_utf16(&mut units)
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect::<Vec<_>>()
                .concat()
        };
        let plain =
            any::<char>().prop_filter("to be escaped", |it| !matches!(it, '"' | '\\' | '\0'..='\x1f'));
        let character = prop_oneof![
            4 => "[a-c]",
            2 => any::<char>().prop_map(unit),
            2 => plain.prop_map(String::from),
            1 => prop::sample::select(vec!["\\n", "\\\"", "\\\\", "\\/", "\\b", "{", "}", "[", "]", ",", ":", "!", " "])
                .prop_map(str::to_owned),
        ];
        prop::collection::vec(character, 0..4).prop_map(|it| format!("\"{}\"", it.concat()))
    }

    fn space() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["", "", "", " ", "\n\t "])
    }

    fn any_text() -> impl Strategy<Value = String> {
        let scalars = vec!["0", "-1", "1.50", "1e999", "-0.0E-7", "true", "false", "null", "{}", "[]", "{ }"];
        let scalar = prop_oneof![prop::sample::select(scalars).prop_map(str::to_owned), any_string()];
        scalar.prop_recursive(5, 60, 6, |inner| {
            let item = (space(), inner.clone(), space()).prop_map(|(a, it, b)| format!("{a}{it}{b}"));
            let member = (space(), any_string(), space(), space(), inner, space())
                .prop_map(|(a, name, b, c, it, d)| format!("{a}{name}{b}:{c}{it}{d}"));
            prop_oneof![
                1 => prop::collection::vec(item, 1..6).prop_map(|it| format!("[{}]", it.join(","))),
                3 => prop::collection::vec(member, 1..6).prop_map(|it| format!("{{{}}}", it.join(","))),
            ]
        })
    }

    proptest! {
        // A failure prints what it needs to be seen again, and leaves no files.
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn both_ways_agree_on_any_json(text in any_text()) {
            check(text.as_bytes());
        }

        #[test]
        fn both_ways_agree_on_damaged_json(text in any_text(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut text = text.into_bytes();
            let at = at.index(text.len());
            text[at] = byte;
            check(&text);
        }
    }
}
