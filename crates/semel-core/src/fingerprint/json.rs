//! Canonical JSON.
//!
//! 1. One pass over the text, one output buffer: a scalar costs no allocation, and neither does putting members in order,
//!    where there is room. A large text is not written, but hashed piece by piece: see [`super::large`].
//! 2. Members are written as they come, then put in order where they were not. Any total order will do, so
//!    it is that of their encoded names.
//! 3. The output is JSON again: no space, every string with the fewest escapes, numbers as they stood.
//!
//! It builds no tree and judges no numbers: `1e999` is JSON.

use super::strings::{Escaped, escape_at};
use crate::{sabotage::is_on, scan::plain_bytes, scratch::with_room};
use std::{cell::Cell, ops::Range};

/// Deepest nesting of arrays and objects.
pub const JSON_DEPTH_MAX: usize = 128;

/// Why a text has no JSON fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("byte {position} of the payload {fault}")]
pub struct NotJson {
    pub(super) position: usize,
    pub(super) fault: Fault,
}

impl NotJson {
    /// Where in the text, in bytes from its beginning.
    pub const fn position(&self) -> usize {
        self.position
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Fault {
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

thread_local! {
    /// For the members of objects.
    static ROOM: Cell<Vec<Member>> = const { Cell::new(Vec::new()) };
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Writes the canonical form of a JSON text behind what was written before. Without it, what is behind that means nothing.
pub(super) fn canonical_after(out: Vec<u8>, text: &[u8]) -> (Vec<u8>, Result<(), NotJson>) {
    with_room(&ROOM, |members| {
        let form = Written { out, members: std::mem::take(members) };
        let mut reader = Reader { text, at: 0, form };
        let written = reader.whole();
        *members = reader.form.members;
        (reader.form.out, written)
    })
}

/// What is made of a text while it is read.
pub(super) trait Form {
    /// What is known of an object that is being read.
    type Object;

    /// These bytes are next in the canonical form.
    fn put(&mut self, bytes: &[u8]);

    /// This byte is.
    fn push(&mut self, byte: u8);

    /// How many bytes were put.
    fn length(&self) -> usize;

    fn object(&mut self) -> Self::Object;

    /// The name of a member, which stands here in the text, was put behind so many bytes.
    fn named(&mut self, position: usize, start: usize);

    /// The value of the member that was named last was put.
    fn member(&mut self);

    /// The object that stands here in the text has no more members.
    fn ordered(&mut self, object: Self::Object, place: Range<usize>) -> Result<(), NotJson>;

    /// Another value was put, which stands here in the text.
    fn was_at(&mut self, place: Range<usize>);
}

/// The canonical form itself.
pub(super) struct Written {
    pub(super) out: Vec<u8>,
    /// Of the objects that are being read, outer ones first: one allocation serves them all.
    pub(super) members: Vec<Member>,
}

/// A member of an object that is being read: where its name stood in the text, and where it was written.
#[derive(Clone, Copy)]
pub(super) struct Member {
    position: usize,
    start: usize,
    name_end: usize,
    end: usize,
}

impl Form for Written {
    /// The first of its members.
    type Object = usize;

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.out.push(byte);
    }

    #[inline]
    fn length(&self) -> usize {
        self.out.len()
    }

    #[inline]
    fn object(&mut self) -> usize {
        self.members.reserve(MEMBERS);
        self.members.len()
    }

    #[inline]
    fn named(&mut self, position: usize, start: usize) {
        let name_end = self.out.len();
        // Before the value, whose own members are behind it until they are done with.
        self.members.push(Member { position, start, name_end, end: name_end });
    }

    #[inline]
    fn member(&mut self) {
        // Every member is written with a comma behind it, so that they can change places.
        self.out.push(b',');
        if let Some(last) = self.members.last_mut() {
            last.end = self.out.len();
        }
    }

    /// Puts the members of the object that ends here in order, and refuses two of one name.
    #[inline]
    fn ordered(&mut self, first: usize, _: Range<usize>) -> Result<(), NotJson> {
        let Self { out, members } = self;
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
        members.truncate(first);
        out.pop();
        Ok(())
    }

    #[inline]
    fn was_at(&mut self, _: Range<usize>) {}
}

/// Reads JSON.
pub(super) struct Reader<'a, F> {
    pub(super) text: &'a [u8],
    /// The next byte to read.
    pub(super) at: usize,
    pub(super) form: F,
}

impl<F: Form> Reader<'_, F> {
    pub(super) fn whole(&mut self) -> Result<(), NotJson> {
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

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads this byte and the space behind it, if it is there.
    pub(super) fn token(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
            self.skip_space();
        }
        found
    }

    pub(super) fn value(&mut self, depth: usize) -> Result<(), NotJson> {
        match self.peek() {
            Some(b'{' | b'[') if depth == JSON_DEPTH_MAX => self.fault(Fault::Depth),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => {
                let start = self.at;
                self.string()?;
                self.form.was_at(start..self.at);
                Ok(())
            }
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
        self.form.put(word);
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), NotJson> {
        let start = self.at;
        self.token(b'[');
        self.form.push(b'[');
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
            self.form.push(b',');
        }
        if self.peek() != Some(b']') {
            return self.expected("`,` or `]`");
        }
        self.close(b']');
        self.form.was_at(start..self.at);
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), NotJson> {
        let start = self.at;
        self.token(b'{');
        self.form.push(b'{');
        if self.peek() == Some(b'}') {
            self.close(b'}');
            return Ok(());
        }
        let object = self.form.object();
        loop {
            self.member(depth)?;
            self.form.member();
            if !self.token(b',') {
                break;
            }
        }
        if self.peek() != Some(b'}') {
            return self.expected("`,` or `}`");
        }
        self.form.ordered(object, start..self.at + 1)?;
        self.close(b'}');
        Ok(())
    }

    /// Reads the closing bracket that stands here.
    fn close(&mut self, mark: u8) {
        self.at += 1;
        self.form.push(mark);
    }

    fn member(&mut self, depth: usize) -> Result<(), NotJson> {
        let (position, start) = (self.at, self.form.length());
        if self.peek() != Some(b'"') {
            return self.expected("the name of a member");
        }
        self.string()?;
        self.form.named(position, start);
        self.skip_space();
        if !self.token(b':') {
            return self.expected("`:`");
        }
        self.form.push(b':');
        self.value(depth)?;
        self.skip_space();
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
        self.form.put(&self.text[start..self.at]);
        self.form.was_at(start..self.at);
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
                    self.form.put(&self.text[start..self.at]);
                    self.escape()?;
                    start = self.at;
                }
                Some(_) => return self.fault(Fault::Control),
                None => return self.fault(Fault::End),
            }
        }
        self.at += 1;
        self.form.put(&self.text[start..self.at]);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), NotJson> {
        let (decoded, length) = escape_at(self.text, self.at)?;
        self.at += length;
        self.form.put(Escaped::of(decoded).as_bytes());
        Ok(())
    }
}
