//! Names to addresses.

use semel_core::BoxFuture;
use std::{io, net::IpAddr};
use tokio::sync::Semaphore;

/// Most names that are looked up at once: the machine's resolver takes a thread for each.
pub const LOOKUPS_MAX: usize = 64;
/// Most addresses of one host that are tried.
pub const ADDRESSES_MAX: usize = 8;

/// Looks names up. The client checks every address that comes out, and connects to no other.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a host.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The machine's own resolver.
#[derive(Debug)]
pub struct SystemResolver {
    lookups: Semaphore,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Semaphore::new(LOOKUPS_MAX) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let _permit = self.lookups.acquire().await.map_err(io::Error::other)?;
            let addresses = tokio::net::lookup_host((name, 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    }
}
