//! Stored bytes of an event.
//!
//! 1. The first byte is the format's version, the last four are the CRC-32 of all before them, as of everything
//!    that Semel stores.
//! 2. Reading checks what building checks: bytes that hold no event are refused, whoever wrote them.
//! 3. No length is believed before the bytes are there, so hostile ones allocate nothing.
//! 4. The data of an event that was read shares the bytes it was read from.
//! 5. A fixture per version is kept in the tests: what is written once is read for ever.
//!
//! ```text
//! version 1 · id · source · type · subject? · time? · datacontenttype? · dataschema?
//!           · count · (name · value)… · data? · crc 4
//! ```
//! Numbers are LEB128. Text that may be missing has its length plus one in front, 0 if it is missing.

use super::{EVENT_BYTES_MAX, EXTENSIONS_MAX, Event, EventTime};
use bytes::Bytes;
use semel_core::{sabotage::is_on, wire::WireError};

/// The version that is written, and the newest that is read.
pub const VERSION: u8 = 1;

const CHECKSUM_BYTES: usize = 4;
/// Longest LEB128 of a length that can be there.
const LENGTH_BYTES_MAX: u32 = 5;

impl Event {
    /// The event as bytes, for a queue to keep.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(length(self));
        out.push(VERSION);
        for text in [Some(self.id()), Some(self.source()), Some(self.kind())] {
            put_text(&mut out, text);
        }
        put_text(&mut out, self.subject());
        put_text(&mut out, self.time().map(EventTime::text));
        put_text(&mut out, self.data_content_type());
        put_text(&mut out, self.data_schema());
        put_number(&mut out, self.extensions.len());
        for (name, value) in self.extensions() {
            put_text(&mut out, Some(name));
            put_text(&mut out, Some(value));
        }
        put_bytes(&mut out, self.data.as_deref());
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads back what [`Event::encode`] gave, and checks it as if it were new.
    pub fn decode(bytes: &Bytes) -> Result<Self, WireError> {
        let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(WireError::Checksum);
        };
        let matches = crc32fast::hash(content) == u32::from_le_bytes(*checksum);
        if !matches && !is_on("events_checksum_unchecked") {
            return Err(WireError::Checksum);
        }
        match content.first() {
            Some(&VERSION) => {}
            Some(&found) if found > VERSION => return Err(WireError::Newer { found, supported: VERSION }),
            Some(_) | None => return Err(WireError::Malformed("the version")),
        }
        let content = bytes.slice(1..bytes.len() - CHECKSUM_BYTES);
        Reader { content, at: 0 }.event()
    }
}

/// How many bytes [`Event::encode`] gives.
pub(super) fn length(event: &Event) -> usize {
    let text = |it: Option<&str>| it.map_or(1, |it| number_length(it.len() + 1) + it.len());
    let extension = |(name, value): (&str, &str)| text(Some(name)) + text(Some(value));
    let data = event.data.as_ref().map_or(1, |it| number_length(it.len() + 1) + it.len());
    let attributes = [
        Some(event.id()),
        Some(event.source()),
        Some(event.kind()),
        event.subject(),
        event.time().map(EventTime::text),
        event.data_content_type(),
        event.data_schema(),
    ];
    1 + attributes.into_iter().map(text).sum::<usize>()
        + number_length(event.extensions.len())
        + event.extensions().map(extension).sum::<usize>()
        + data
        + CHECKSUM_BYTES
}

/// Appends text, or that there is none.
pub(super) fn put_text(out: &mut Vec<u8>, text: Option<&str>) {
    put_bytes(out, text.map(str::as_bytes));
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let Some(bytes) = bytes else { return out.push(0) };
    put_number(out, bytes.len() + 1);
    out.extend_from_slice(bytes);
}

/// Appends a number, seven bits a byte, the lowest first.
fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

const fn number_length(mut number: usize) -> usize {
    let mut length = 1;
    while number >= 0x80 {
        number >>= 7;
        length += 1;
    }
    length
}

/// Reads what the functions above wrote.
struct Reader {
    content: Bytes,
    /// The next byte to read.
    at: usize,
}

impl Reader {
    fn event(mut self) -> Result<Event, WireError> {
        let mut event = Event::builder(
            self.required("the id")?,
            self.required("the source")?,
            self.required("the type")?,
        );
        event = match self.text("the subject")? {
            Some(it) => event.subject(it),
            None => event,
        };
        event = match self.text("the time")? {
            Some(it) => event.time(it),
            None => event,
        };
        event = match self.text("the media type")? {
            Some(it) => event.content_type(it),
            None => event,
        };
        event = match self.text("the schema")? {
            Some(it) => event.schema(it),
            None => event,
        };
        let count = self.number("the extensions")?;
        if count > EXTENSIONS_MAX {
            return Err(WireError::Malformed("the extensions"));
        }
        for _ in 0..count {
            event = event.extension(self.required("an extension")?, self.required("an extension")?);
        }
        event = match self.bytes("the data")? {
            Some(it) => event.data(it),
            None => event,
        };
        if self.at < self.content.len() {
            return Err(WireError::Malformed("what follows the end"));
        }
        event.build().map_err(|_| WireError::Malformed("the event"))
    }

    fn number(&mut self, what: &'static str) -> Result<usize, WireError> {
        let mut number = 0;
        for shift in (0..LENGTH_BYTES_MAX).map(|it| it * 7) {
            let byte = *self.content.get(self.at).ok_or(WireError::Malformed(what))?;
            self.at += 1;
            // A last byte of 0 is a longer way to write a number.
            if byte == 0 && shift > 0 {
                break;
            }
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WireError::Malformed(what))
    }

    fn bytes(&mut self, what: &'static str) -> Result<Option<Bytes>, WireError> {
        let Some(length) = self.number(what)?.checked_sub(1) else { return Ok(None) };
        if length > EVENT_BYTES_MAX || length > self.content.len() - self.at {
            return Err(WireError::Malformed(what));
        }
        let taken = self.content.slice(self.at..self.at + length);
        self.at += length;
        Ok(Some(taken))
    }

    fn text(&mut self, what: &'static str) -> Result<Option<String>, WireError> {
        let text = self.bytes(what)?.map(|it| String::from_utf8(it.into()));
        text.transpose().map_err(|_| WireError::Malformed(what))
    }

    fn required(&mut self, what: &'static str) -> Result<String, WireError> {
        self.text(what)?.ok_or(WireError::Malformed(what))
    }
}
