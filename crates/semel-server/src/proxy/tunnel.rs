//! Two connections that have become one: a WebSocket.
//!
//! It keeps the client's place among the connections until both sides have ended.

use crate::listen::Connection;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

/// Joins the two sides, when both are there.
pub(super) fn open(client_side: OnUpgrade, upstream_side: OnUpgrade, connection: Connection) {
    tokio::spawn(async move {
        let (Ok(client), Ok(upstream)) = tokio::join!(client_side, upstream_side) else { return };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        // How it ends is for the two sides to know.
        let _ = copy_bidirectional(&mut client, &mut upstream).await;
        drop(connection);
    });
}
