//! A connection that asks, and reads the answer.

use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Longest answer that is read, in bytes: a receipt for every event of a full batch.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A connection that asks, and reads the answer.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

/// An answer, until the next request.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: &'a [u8],
}

impl Client {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(4_096) })
    }

    /// Sends a request as it is, and reads the whole answer.
    pub async fn ask(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.read.clear();
        let mut whole = None;
        loop {
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if whole.is_none() {
                whole = head(&self.read)?;
            }
            if let Some(Head { status, bytes, length }) = whole
                && self.read.len() >= bytes + length
            {
                return Ok(Answer { status, body: &self.read[bytes..bytes + length] });
            }
            if self.read.len() > ANSWER_BYTES_MAX {
                return Err(io::Error::other("the answer is too long"));
            }
        }
    }
}

/// What is known from the head of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    status: u16,
    /// How long the head is.
    bytes: usize,
    /// How long the body is.
    length: usize,
}

/// The head of an answer, if all of it is there.
fn head(read: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(read).map_err(io::Error::other)?;
    let httparse::Status::Complete(bytes) = parsed else { return Ok(None) };
    let length = response.headers.iter().find(|it| it.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|it| std::str::from_utf8(it.value).ok()?.parse().ok());
    let length = length.ok_or_else(|| io::Error::other("an answer does not say how long it is"))?;
    Ok(Some(Head { status: response.code.unwrap_or_default(), bytes, length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_known_when_all_of_it_is_there() {
        let text = b"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(head(&text[..30]).unwrap(), None);
        assert_eq!(head(text).unwrap(), Some(Head { status: 202, bytes: text.len() - 3, length: 3 }));
        head(b"HTTP/1.1 200 OK\r\n\r\n").unwrap_err();
    }
}
