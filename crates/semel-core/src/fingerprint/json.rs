//! Canonical JSON.
//!
//! 1. One pass over the text, one output buffer: a scalar costs no allocation, and neither does putting members in order,
//!    where there is room.
//! 2. Members are written as they come, then put in order where they were not. Any total order will do, so
//!    it is that of their encoded names.
//! 3. The output is JSON again: no space, every string with the fewest escapes, numbers as they stood.
//!
//! It builds no tree and judges no numbers: `1e999` is JSON.

use crate::{sabotage::is_on, scan::plain_bytes};

/// Deepest nesting of arrays and objects.
pub const JSON_DEPTH_MAX: usize = 128;

/// Why a text has no JSON fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("byte {position} of the payload {fault}")]
pub struct NotJson {
    position: usize,
    fault: Fault,
}

impl NotJson {
    /// Where in the text, in bytes from its beginning.
    pub const fn position(&self) -> usize {
        self.position
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum Fault {
    #[error("begins a byte order mark, which JSON must not have")]
    ByteOrderMark,
    #[error("is not UTF-8")]
    Utf8,
    #[error("is where the JSON ends too early")]
    End,
    #[error("is not where {0} can stand in JSON")]
    Expected(&'static str),
    #[error("is an unescaped control character in a JSON string")]
    Control,
    #[error("begins an escape that JSON does not have")]
    Escape,
    #[error("begins a lone surrogate, which no character is written with")]
    Surrogate,
    #[error("repeats the name of a member: readers disagree on which one counts")]
    Duplicate,
    #[error("is nested deeper than {JSON_DEPTH_MAX}")]
    Depth,
    #[error("follows the end of the JSON")]
    Trailing,
}

/// As many members as most objects have.
const MEMBERS: usize = 8;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Writes the canonical form of a JSON text behind what was written before. Without it, what is behind that means nothing.
pub(super) fn canonical_after(out: Vec<u8>, text: &[u8]) -> (Vec<u8>, Result<(), NotJson>) {
    let mut reader = Reader { text, at: 0, out, members: Vec::new() };
    let written = reader.whole();
    (reader.out, written)
}

struct Reader<'a> {
    text: &'a [u8],
    /// The next byte to read.
    at: usize,
    out: Vec<u8>,
    /// Of the objects that are being read, outer ones first: one allocation serves them all.
    members: Vec<Member>,
}

/// A member of an object that is being read: where its name stood in the text, and where it was written.
#[derive(Clone, Copy)]
struct Member {
    position: usize,
    start: usize,
    name_end: usize,
    end: usize,
}

impl Reader<'_> {
    fn whole(&mut self) -> Result<(), NotJson> {
        if self.text.starts_with(BYTE_ORDER_MARK) {
            return self.fault(Fault::ByteOrderMark);
        }
        // Most texts are ASCII, and that is seen sooner.
        if !self.text.is_ascii()
            && let Err(error) = std::str::from_utf8(self.text)
        {
            return Err(NotJson { position: error.valid_up_to(), fault: Fault::Utf8 });
        }
        self.skip_space();
        self.value(0)?;
        self.skip_space();
        if self.at < self.text.len() { self.fault(Fault::Trailing) } else { Ok(()) }
    }

    fn fault<T>(&self, fault: Fault) -> Result<T, NotJson> {
        Err(NotJson { position: self.at, fault })
    }

    fn expected<T>(&self, what: &'static str) -> Result<T, NotJson> {
        self.fault(if self.at < self.text.len() { Fault::Expected(what) } else { Fault::End })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads this byte and the space behind it, if it is there.
    fn token(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
            self.skip_space();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<(), NotJson> {
        match self.peek() {
            Some(b'{' | b'[') if depth == JSON_DEPTH_MAX => self.fault(Fault::Depth),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(_) | None => self.expected("a value"),
        }
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), NotJson> {
        if !self.text[self.at..].starts_with(word) {
            return self.expected("a value");
        }
        self.at += word.len();
        self.out.extend_from_slice(word);
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), NotJson> {
        self.token(b'[');
        self.out.push(b'[');
        if self.peek() == Some(b']') {
            self.close(b']');
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.skip_space();
            if !self.token(b',') {
                break;
            }
            self.out.push(b',');
        }
        if self.peek() != Some(b']') {
            return self.expected("`,` or `]`");
        }
        self.close(b']');
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), NotJson> {
        self.token(b'{');
        self.out.push(b'{');
        if self.peek() == Some(b'}') {
            self.close(b'}');
            return Ok(());
        }
        let first = self.members.len();
        self.members.reserve(MEMBERS);
        loop {
            self.member(depth)?;
            // Every member is written with a comma behind it, so that they can change places.
            self.out.push(b',');
            if let Some(last) = self.members.last_mut() {
                last.end = self.out.len();
            }
            if !self.token(b',') {
                break;
            }
        }
        if self.peek() != Some(b'}') {
            return self.expected("`,` or `}`");
        }
        self.order(first)?;
        self.out.pop();
        self.close(b'}');
        Ok(())
    }

    /// Reads the closing bracket that stands here.
    fn close(&mut self, mark: u8) {
        self.at += 1;
        self.out.push(mark);
    }

    fn member(&mut self, depth: usize) -> Result<(), NotJson> {
        let (position, start) = (self.at, self.out.len());
        if self.peek() != Some(b'"') {
            return self.expected("the name of a member");
        }
        self.string()?;
        let name_end = self.out.len();
        // Before the value, whose own members are behind it until they are done with.
        self.members.push(Member { position, start, name_end, end: name_end });
        self.skip_space();
        if !self.token(b':') {
            return self.expected("`:`");
        }
        self.out.push(b':');
        self.value(depth)?;
        self.skip_space();
        Ok(())
    }

    /// Puts the members of the object that ends here in order, and refuses two of one name.
    fn order(&mut self, first: usize) -> Result<(), NotJson> {
        let Self { out, members, .. } = self;
        let object = &mut members[first..];
        let name = |it: &Member| &out[it.start..it.name_end];
        if !object.is_sorted_by(|a, b| name(a) < name(b)) && !is_on("member_order_counts") {
            object.sort_unstable_by(|a, b| name(a).cmp(name(b)).then(a.position.cmp(&b.position)));
            if let Some(pair) = object.windows(2).find(|pair| name(&pair[0]) == name(&pair[1])) {
                return Err(NotJson { position: pair[1].position, fault: Fault::Duplicate });
            }
            // They are put in order behind themselves, and moved to where they were.
            let (start, end) = (object.iter().map(|it| it.start).min().unwrap_or(out.len()), out.len());
            out.reserve(end - start);
            for it in object.iter() {
                out.extend_from_within(it.start..it.end);
            }
            out.copy_within(end.., start);
            out.truncate(end);
        }
        self.members.truncate(first);
        Ok(())
    }

    fn number(&mut self) -> Result<(), NotJson> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(_) | None => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        self.out.extend_from_slice(&self.text[start..self.at]);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let count = self.text[self.at..].iter().take_while(|it| it.is_ascii_digit()).count();
        if count == 0 {
            return self.expected("a digit");
        }
        self.at += count;
        Ok(())
    }

    fn string(&mut self) -> Result<(), NotJson> {
        // As far as it stands there as it is, it is copied with its quotes.
        let mut start = self.at;
        self.at += 1;
        loop {
            self.at += plain_bytes(&self.text[self.at..]);
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.out.extend_from_slice(&self.text[start..self.at]);
                    self.escape()?;
                    start = self.at;
                }
                Some(_) => return self.fault(Fault::Control),
                None => return self.fault(Fault::End),
            }
        }
        self.at += 1;
        self.out.extend_from_slice(&self.text[start..self.at]);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), NotJson> {
        let decoded = match self.text.get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            Some(_) => return self.fault(Fault::Escape),
            None => return self.fault(Fault::End),
        };
        self.at += 2;
        self.write(decoded);
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<(), NotJson> {
        let first = self.unit(self.at)?;
        let (code, length) = match first {
            0xd800..=0xdbff => {
                let paired = self.text.get(self.at + 6..self.at + 8) == Some(b"\\u");
                match paired.then(|| self.unit(self.at + 6)).transpose()? {
                    Some(second @ 0xdc00..=0xdfff) => {
                        (0x1_0000 + ((u32::from(first) - 0xd800) << 10) + (u32::from(second) - 0xdc00), 12)
                    }
                    Some(_) | None => return self.fault(Fault::Surrogate),
                }
            }
            _ => (u32::from(first), 6),
        };
        let Some(decoded) = char::from_u32(code) else { return self.fault(Fault::Surrogate) };
        self.at += length;
        self.write(decoded);
        Ok(())
    }

    /// The UTF-16 code unit of the `\uXXXX` that begins here.
    fn unit(&self, start: usize) -> Result<u16, NotJson> {
        let Some(digits) = self.text.get(start + 2..start + 6) else {
            return Err(NotJson { position: self.text.len(), fault: Fault::End });
        };
        digits.iter().try_fold(0, |unit, digit| match (*digit as char).to_digit(16) {
            Some(it) => Ok(unit << 4 | it as u16),
            None => Err(NotJson { position: start, fault: Fault::Escape }),
        })
    }

    /// Writes a decoded character, escaped only where JSON demands it, and then in one way only.
    fn write(&mut self, decoded: char) {
        match decoded {
            '"' | '\\' => self.out.extend_from_slice(&[b'\\', decoded as u8]),
            '\0'..='\x1f' => {
                let hex = |nibble: u8| char::from_digit(nibble.into(), 16).map_or(b'0', |it| it as u8);
                let byte = decoded as u8;
                self.out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]);
            }
            _ => self.out.extend_from_slice(decoded.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}
