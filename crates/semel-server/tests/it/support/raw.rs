//! A socket, and the bytes on it.

use super::soon;
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// How long the end of a connection may take.
const END_MAX: Duration = Duration::from_secs(12);

/// A connection without a library between.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Everything until the other side ends the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let mut read = Vec::new();
        let ended = tokio::time::timeout(END_MAX, self.0.read_to_end(&mut read)).await;
        match ended.unwrap_or_else(|_| panic!("the connection does not end")) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                read.extend_from_slice(b"(reset)");
            }
            Err(error) => panic!("{error}"),
        }
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Everything up to and with this text.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains(text) {
            let so_far = String::from_utf8_lossy(&read).into_owned();
            let count = soon("more", self.0.read_buf(&mut read)).await.unwrap();
            assert!(count > 0, "it ended before `{text}`: {so_far}");
        }
        String::from_utf8_lossy(&read).into_owned()
    }
}

/// Sends these bytes, and gives everything that comes until the connection ends.
pub(crate) async fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut raw = Raw::connect(address).await;
    raw.write(bytes).await;
    raw.rest().await
}

/// Four senders of one address who have sent a head, of whom the first may go on, and then one of another, who may, too.
pub(crate) async fn slow_and_another(address: SocketAddr, head: impl Fn(&str) -> String) -> (Vec<Raw>, Raw) {
    let mut slow = Vec::new();
    for n in 0..4 {
        let mut raw = Raw::connect(address).await;
        raw.write(head(&format!("slow-{n}"))).await;
        if n == 0 {
            raw.until("100 Continue").await;
        }
        slow.push(raw);
    }
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
    let mut other = Raw(socket.connect(address).await.unwrap());
    other.write(head("other")).await;
    other.until("100 Continue").await;
    (slow, other)
}
