//! One connection through the proxy.

use super::{Fault, Shared, count};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

/// Largest message; a longer one counts as several.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Whether a connection goes on.
enum Goes {
    On,
    Ends,
}

/// Passes messages on until one side closes, or a fault ends it.
pub(super) async fn run(client: TcpStream, shared: Arc<Shared>) {
    let mut standing = shared.standing.subscribe();
    let fault = *standing.borrow_and_update();
    if fault != Fault::Pass {
        count(&shared.troubled);
    }
    match fault {
        Fault::Refuse => return,
        Fault::Reset => return reset(&client),
        Fault::BlackHole => return hold(client).await,
        Fault::Delay(by) => tokio::time::sleep(by).await,
        Fault::Pass | Fault::CutReply => {}
    }
    // A server that cannot be reached looks the same from both sides of the proxy: the connection ends.
    let Ok(server) = TcpStream::connect(&shared.server).await else { return };
    let mut line = Line { client, server, shared };
    let _ended = line.pass(&mut standing).await;
}

struct Line {
    client: TcpStream,
    server: TcpStream,
    shared: Arc<Shared>,
}

impl Line {
    async fn pass(&mut self, standing: &mut watch::Receiver<Fault>) -> io::Result<()> {
        // A small message must not wait for the next one.
        self.client.set_nodelay(true)?;
        self.server.set_nodelay(true)?;
        let mut request = vec![0; MESSAGE_BYTES_MAX];
        let mut reply = vec![0; MESSAGE_BYTES_MAX];
        loop {
            let goes = tokio::select! {
                read = self.client.read(&mut request) => match read? {
                    0 => Goes::Ends,
                    read => self.request(&request[..read]).await?,
                },
                read = self.server.read(&mut reply) => match read? {
                    0 => Goes::Ends,
                    read => self.reply(&reply[..read]).await?,
                },
                changed = standing.changed() => match changed {
                    Ok(()) => self.interrupt(*standing.borrow_and_update()),
                    Err(_) => Goes::Ends,
                },
            };
            if let Goes::Ends = goes {
                return Ok(());
            }
        }
    }

    async fn request(&mut self, message: &[u8]) -> io::Result<Goes> {
        match self.shared.meets() {
            Fault::Pass => self.server.write_all(message).await?,
            Fault::Delay(by) => {
                tokio::time::sleep(by).await;
                self.server.write_all(message).await?;
            }
            Fault::Refuse => return Ok(Goes::Ends),
            Fault::Reset => {
                reset(&self.client);
                return Ok(Goes::Ends);
            }
            Fault::BlackHole => {
                silence(&mut self.client).await;
                return Ok(Goes::Ends);
            }
            Fault::CutReply => {
                self.server.write_all(message).await?;
                self.cut().await?;
                return Ok(Goes::Ends);
            }
        }
        Ok(Goes::On)
    }

    /// Waits until the server has replied, and tells the client nothing of it.
    async fn cut(&mut self) -> io::Result<()> {
        let mut dropped = vec![0; MESSAGE_BYTES_MAX];
        let _whole_or_begun = self.server.read(&mut dropped).await?;
        self.client.shutdown().await?;
        // Closing with something unread would reset the server's side, which may throw away what it was sent.
        self.server.shutdown().await?;
        while self.server.read(&mut dropped).await? > 0 {}
        Ok(())
    }

    async fn reply(&mut self, message: &[u8]) -> io::Result<Goes> {
        let fault = *self.shared.standing.borrow();
        match fault {
            Fault::Delay(by) => tokio::time::sleep(by).await,
            Fault::BlackHole => {
                silence(&mut self.client).await;
                return Ok(Goes::Ends);
            }
            Fault::Refuse | Fault::Reset => return Ok(Goes::Ends),
            Fault::Pass | Fault::CutReply => {}
        }
        self.client.write_all(message).await?;
        count(&self.shared.replies);
        Ok(Goes::On)
    }

    /// The standing fault has become this one.
    fn interrupt(&self, fault: Fault) -> Goes {
        match fault {
            Fault::Pass | Fault::Delay(_) | Fault::BlackHole | Fault::CutReply => Goes::On,
            Fault::Refuse => Goes::Ends,
            Fault::Reset => {
                reset(&self.client);
                Goes::Ends
            }
        }
    }
}

/// Makes closing the connection a reset.
fn reset(client: &TcpStream) {
    // Where this fails the connection is closed in good order, which a client must bear as well.
    let _is_reset = client.set_zero_linger();
}

async fn hold(mut client: TcpStream) {
    silence(&mut client).await;
}

/// Reads and answers nothing until the client gives up.
async fn silence(client: &mut TcpStream) {
    let mut swallowed = vec![0; MESSAGE_BYTES_MAX];
    while client.read(&mut swallowed).await.is_ok_and(|read| read > 0) {}
}
