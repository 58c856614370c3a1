//! Following the bytes of a connection of HTTP/1: heads are inspected, bodies are passed over.
//!
//! 1. A line feed without its carriage return is refused as soon as it is seen: in heads, in the lines around chunks, and
//!    in trailers.
//! 2. A head is inspected when it is complete, and before its last byte is passed on.
//! 3. Where a body ends is told by the head that was inspected, so that the next head is found whatever it comes with.
//!
//! It does not change any byte.

use super::{
    Limits,
    head::{Framing, check, exceeds, has_long_line},
};
use crate::problem::Problem;
use semel_core::sabotage;
use std::sync::Arc;

/// Longest line around a chunk, in bytes: its size, and extensions that nobody reads.
const CHUNK_LINE_BYTES_MAX: usize = 1_024;
/// How much memory a connection keeps for heads that come in pieces.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// Follows the bytes of one connection.
pub(super) struct Inspector {
    limits: Arc<Limits>,
    state: State,
    /// What was read of a head that is not complete.
    head: Vec<u8>,
    line: Line,
}

#[derive(PartialEq, Eq, Debug)]
enum State {
    Head,
    Body {
        left: u64,
    },
    ChunkSize {
        size: u64,
        digits: u8,
        is_extension: bool,
    },
    Chunk {
        left: u64,
    },
    /// The line end after a chunk.
    ChunkEnd,
    Trailers {
        bytes: usize,
    },
}

/// Where in a connection's bytes the reading is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Between,
    Head,
    Body,
}

/// A line that is being read.
#[derive(Default)]
struct Line {
    /// Its length so far, without the carriage return that may end it.
    length: usize,
    ends_with_return: bool,
}

/// What became of a line.
enum Scanned {
    /// It ended after so many bytes, and had so many.
    Ended { used: usize, length: usize },
    /// It goes on.
    More,
}

impl Line {
    /// Reads up to the end of the line.
    fn scan(&mut self, bytes: &[u8]) -> Result<Scanned, Problem> {
        let Some(at) = bytes.iter().position(|it| *it == b'\n') else {
            self.ends_with_return = bytes.last().map_or(self.ends_with_return, |it| *it == b'\r');
            self.length += bytes.len();
            return Ok(Scanned::More);
        };
        let is_ended_well = if at == 0 { self.ends_with_return } else { bytes[at - 1] == b'\r' };
        if !is_ended_well && !sabotage::is_on("listen_accepts_bare_line_feed") {
            return Err(Problem::BAD_REQUEST);
        }
        let length = (self.length + at).saturating_sub(1);
        *self = Self::default();
        Ok(Scanned::Ended { used: at + 1, length })
    }
}

impl Inspector {
    pub(super) fn new(limits: Arc<Limits>) -> Self {
        Self { limits, state: State::Head, head: Vec::new(), line: Line::default() }
    }

    /// Where the reading is.
    pub(super) fn phase(&self) -> Phase {
        match self.state {
            State::Head if self.head.is_empty() => Phase::Between,
            State::Head => Phase::Head,
            State::Body { .. }
            | State::ChunkSize { .. }
            | State::Chunk { .. }
            | State::ChunkEnd
            | State::Trailers { .. } => Phase::Body,
        }
    }

    /// Follows these bytes; a problem is the end of the connection.
    pub(super) fn inspect(&mut self, mut bytes: &[u8]) -> Result<(), Problem> {
        while !bytes.is_empty() {
            let used = match &mut self.state {
                State::Head => self.head(bytes)?,
                State::Body { left } => {
                    let used = pass(left, bytes.len());
                    if *left == 0 {
                        self.state = State::Head;
                    }
                    used
                }
                State::ChunkSize { .. } => self.chunk_size(bytes)?,
                State::Chunk { left } => {
                    let used = pass(left, bytes.len());
                    if *left == 0 {
                        self.state = State::ChunkEnd;
                    }
                    used
                }
                State::ChunkEnd => self.chunk_end(bytes)?,
                State::Trailers { .. } => self.trailers(bytes)?,
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    /// Reads a head, from its beginning or from where the last bytes ended.
    fn head(&mut self, bytes: &[u8]) -> Result<usize, Problem> {
        let mut used = 0;
        loop {
            match self.line.scan(&bytes[used..])? {
                Scanned::Ended { used: line, length: 0 } => {
                    used += line;
                    // An empty line before a head is passed over.
                    if self.head.len() + used == 2 {
                        self.head.clear();
                        return Ok(used);
                    }
                    return self.whole(bytes, used);
                }
                Scanned::Ended { used: line, .. } => used += line,
                Scanned::More => {
                    self.head.extend_from_slice(bytes);
                    return self.partial().map(|()| bytes.len());
                }
            }
        }
    }

    /// A head that ends here.
    fn whole(&mut self, bytes: &[u8], used: usize) -> Result<usize, Problem> {
        let framing = if self.head.is_empty() {
            check(&bytes[..used], &self.limits)?
        } else {
            self.head.extend_from_slice(&bytes[..used]);
            check(&self.head, &self.limits)?
        };
        self.head.clear();
        self.head.shrink_to(KEPT_BYTES_MAX);
        self.state = match framing {
            Framing::Length(0) => State::Head,
            Framing::Length(left) => State::Body { left },
            Framing::Chunked => NEXT_CHUNK,
        };
        Ok(used)
    }

    /// A head that goes on, if it may.
    fn partial(&self) -> Result<(), Problem> {
        if has_long_line(&self.head, &self.limits) {
            return Err(Problem::URI_TOO_LONG);
        }
        let is_too_large = exceeds(self.head.len(), self.limits.head_bytes_max);
        if is_too_large { Err(Problem::HEADERS_TOO_LARGE) } else { Ok(()) }
    }

    fn chunk_size(&mut self, bytes: &[u8]) -> Result<usize, Problem> {
        let State::ChunkSize { size, digits, is_extension } = &mut self.state else {
            unreachable!("the state was looked at")
        };
        let mut used = 0;
        while !*is_extension && used < bytes.len() {
            let byte = bytes[used];
            match char::from(byte).to_digit(16) {
                Some(digit) if *digits < 15 => {
                    *size = *size << 4 | u64::from(digit);
                    *digits += 1;
                    used += 1;
                }
                None if *digits > 0 && matches!(byte, b'\r' | b'\n' | b';' | b' ' | b'\t') => {
                    *is_extension = true;
                }
                // Too long, or no number at all.
                Some(_) | None => return Err(Problem::BAD_REQUEST),
            }
        }
        if used == bytes.len() {
            return Ok(used);
        }
        let size = *size;
        match self.line.scan(&bytes[used..])? {
            // As long as it is when its last byte is still to come.
            Scanned::Ended { length, .. } if length >= CHUNK_LINE_BYTES_MAX => Err(Problem::BAD_REQUEST),
            Scanned::Ended { used: line, .. } => {
                self.state =
                    if size == 0 { State::Trailers { bytes: 0 } } else { State::Chunk { left: size } };
                Ok(used + line)
            }
            Scanned::More if self.line.length > CHUNK_LINE_BYTES_MAX => Err(Problem::BAD_REQUEST),
            Scanned::More => Ok(bytes.len()),
        }
    }

    fn chunk_end(&mut self, bytes: &[u8]) -> Result<usize, Problem> {
        match self.line.scan(bytes)? {
            Scanned::Ended { used, length: 0 } => {
                self.state = NEXT_CHUNK;
                Ok(used)
            }
            Scanned::More if self.line.length <= 1 && self.line.ends_with_return => Ok(bytes.len()),
            Scanned::Ended { .. } | Scanned::More => Err(Problem::BAD_REQUEST),
        }
    }

    fn trailers(&mut self, bytes: &[u8]) -> Result<usize, Problem> {
        let State::Trailers { bytes: read } = &mut self.state else {
            unreachable!("the state was looked at")
        };
        let scanned = self.line.scan(bytes)?;
        let used = match scanned {
            Scanned::Ended { used, .. } => used,
            Scanned::More => bytes.len(),
        };
        *read += used;
        if exceeds(*read, self.limits.head_bytes_max) {
            return Err(Problem::HEADERS_TOO_LARGE);
        }
        if matches!(scanned, Scanned::Ended { length: 0, .. }) {
            self.state = State::Head;
        }
        Ok(used)
    }
}

const NEXT_CHUNK: State = State::ChunkSize { size: 0, digits: 0, is_extension: false };

/// Passes over bytes, as many as there are and are left.
fn pass(left: &mut u64, available: usize) -> usize {
    let used = available.min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= used as u64;
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspector() -> Inspector {
        Inspector::new(Arc::new(Limits::default()))
    }

    /// What becomes of these bytes, in one piece and in every two, and byte by byte.
    fn check(bytes: &str, expected: Result<Phase, Problem>) {
        let bytes = bytes.as_bytes();
        let run = |pieces: &[&[u8]]| {
            let mut inspector = inspector();
            pieces.iter().try_for_each(|it| inspector.inspect(it)).map(|()| inspector.phase())
        };
        assert_eq!(run(&[bytes]), expected, "{:?}", String::from_utf8_lossy(bytes));
        for at in 0..bytes.len() {
            let (one, other) = bytes.split_at(at);
            assert_eq!(run(&[one, other]), expected, "{:?} at {at}", String::from_utf8_lossy(bytes));
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(run(&single), expected, "{:?} byte by byte", String::from_utf8_lossy(bytes));
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

    #[test]
    fn the_next_head_is_found_after_any_body() {
        let sized = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12\n45";
        let chunked = format!("{CHUNKED}5\r\n12\n45\r\nA;name=\"v\"\r\n0123456789\r\n0\r\nDigest: x\r\n\r\n");
        for messages in [
            GET.to_owned(),
            sized.to_owned(),
            chunked.clone(),
            format!("\r\n{GET}"),
            format!("{chunked}{sized}{GET}{GET}"),
        ] {
            check(&messages, Ok(Phase::Between));
            check(&format!("{messages}GET"), Ok(Phase::Head));
            check(&format!("{messages}GET / HTTP/1.1\n"), Err(Problem::BAD_REQUEST));
        }
        check("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n1234", Ok(Phase::Body));
        check(&format!("{CHUNKED}5\r\n1234"), Ok(Phase::Body));
        check(&format!("{CHUNKED}0\r\n"), Ok(Phase::Body));
    }

    #[test]
    fn a_bare_line_feed_is_refused_wherever_a_line_ends() {
        for bytes in [
            "\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n",
            &format!("{CHUNKED}5\n"),
            &format!("{CHUNKED}5;x\n"),
            &format!("{CHUNKED}5\r\n12345\n"),
            &format!("{CHUNKED}0\r\n\n"),
            &format!("{CHUNKED}0\r\nA: b\n"),
        ] {
            check(bytes, Err(Problem::BAD_REQUEST));
        }
    }

    #[test]
    fn a_chunk_is_a_number_and_so_many_bytes() {
        for rest in [
            "\r\n",
            "x\r\n",
            " 5\r\n",
            "-1\r\n",
            "0x5\r\n",
            "5 x5z\r\n1234567",
            "5\r\n123456",
            "5\r\n12345X\r\n",
            "fffffffffffffffff\r\n",
        ] {
            let bytes = format!("{CHUNKED}{rest}");
            let mut inspector = inspector();
            let result = inspector.inspect(bytes.as_bytes());
            // An extension is allowed; its chunk is then too long.
            assert_eq!(result, Err(Problem::BAD_REQUEST), "{rest:?}");
        }
        let mut inspector = inspector();
        let long = format!("{CHUNKED}5;{}", "x".repeat(CHUNK_LINE_BYTES_MAX + 1));
        assert_eq!(inspector.inspect(long.as_bytes()), Err(Problem::BAD_REQUEST));
    }

    #[test]
    fn a_head_without_end_is_refused_when_it_is_too_large() {
        let limits = Limits { uri_bytes_max: 100, head_bytes_max: 1_000, ..Limits::default() };
        let limits = Arc::new(limits);
        let check = |start: &str, piece: &str, expected: Problem| {
            let mut inspector = Inspector::new(Arc::clone(&limits));
            let mut result = inspector.inspect(start.as_bytes());
            for _ in 0..1_000 {
                result = result.and_then(|()| inspector.inspect(piece.as_bytes()));
            }
            assert_eq!(result, Err(expected));
        };
        check("GET /", "a", Problem::URI_TOO_LONG);
        check("GET / HTTP/1.1\r\n", "a: b\r\n", Problem::HEADERS_TOO_LARGE);
        check(&format!("{CHUNKED}0\r\n"), "a: b\r\n", Problem::HEADERS_TOO_LARGE);
    }
}
