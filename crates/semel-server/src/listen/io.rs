//! The bytes of a connection: what was read to tell the protocol comes first, and all of it is inspected.

use super::{inspect::Inspector, watch::Watch};
use crate::problem::Problem;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A connection whose bytes are inspected.
pub(super) struct Inspected {
    stream: TcpStream,
    /// What was read to tell the protocol; read again first.
    first: Vec<u8>,
    /// None if nothing is inspected: HTTP/2 has frames, and checks them itself.
    inspector: Option<Inspector>,
    watch: Arc<Watch>,
    /// Why it was refused.
    refused: Option<Problem>,
}

impl Inspected {
    pub(super) fn new(
        stream: TcpStream,
        first: Vec<u8>,
        inspector: Option<Inspector>,
        watch: Arc<Watch>,
    ) -> Self {
        Self { stream, first, inspector, watch, refused: None }
    }

    /// Why it was refused, if it was.
    pub(super) fn refused(&self) -> Option<Problem> {
        self.refused
    }

    /// The connection itself.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn inspect(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(inspector) = self.inspector.as_mut().filter(|_| !self.watch.is_raw()) else { return Ok(()) };
        let inspected = inspector.inspect(bytes);
        self.watch.read(inspector.phase());
        inspected.map_err(|problem| {
            self.refused = Some(problem);
            io::Error::new(io::ErrorKind::InvalidData, "the request was refused")
        })
    }

    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        self.watch.wrote(written.is_pending());
        written
    }
}

impl AsyncRead for Inspected {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.first.is_empty() {
            let used = this.first.len().min(buf.remaining());
            let bytes: Vec<u8> = this.first.drain(..used).collect();
            this.inspect(&bytes)?;
            buf.put_slice(&bytes);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = read
            && buf.filled().len() > before
        {
            this.inspect(&buf.filled()[before..])?;
        }
        read
    }
}

impl AsyncWrite for Inspected {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Why it was refused is still to be said.
        if self.refused.is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
