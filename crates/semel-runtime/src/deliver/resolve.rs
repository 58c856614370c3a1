//! Names to addresses.

use super::trouble::is_exhaustion;
use semel_core::BoxFuture;
use std::{
    io,
    net::{IpAddr, ToSocketAddrs as _},
    sync::Arc,
};
use tokio::{sync::Semaphore, task::spawn_blocking};

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
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let host = (name.to_owned(), 0);
        Box::pin(self.bounded(move || {
            let addresses = host.to_socket_addrs().map_err(rather)?;
            Ok(addresses.map(|address| address.ip()).collect())
        }))
    }
}

/// Why a name could not be looked up. The machine's resolver says that there is no such name, too, if it cannot open what it
/// needs to look: so this opens something itself.
fn rather(error: io::Error) -> io::Error {
    let opened = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    opened.err().filter(is_exhaustion).unwrap_or(error)
}

impl SystemResolver {
    /// Runs on a thread of its own. Whoever no longer waits leaves the thread behind, and it counts until it ends.
    async fn bounded<T: Send + 'static>(
        &self,
        look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
        let looking_up = spawn_blocking(move || {
            let found = look_up();
            drop(permit);
            found
        });
        looking_up.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, mpsc};

    #[tokio::test]
    async fn this_machine_knows_itself() {
        let addresses = SystemResolver::default().resolve("localhost").await.unwrap();
        assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
    }

    #[tokio::test]
    async fn no_more_names_are_looked_up_at_once_than_the_limit_whoever_gives_up() {
        let resolver = Arc::new(SystemResolver::default());
        let (all_run, go_on) =
            (Arc::new(Barrier::new(LOOKUPS_MAX + 1)), Arc::new(Barrier::new(LOOKUPS_MAX + 1)));
        let waiting: Vec<_> = (0..LOOKUPS_MAX)
            .map(|_| {
                let (resolver, all_run, go_on) =
                    (Arc::clone(&resolver), Arc::clone(&all_run), Arc::clone(&go_on));
                tokio::spawn(async move {
                    let look_up = move || {
                        all_run.wait();
                        go_on.wait();
                        Ok(())
                    };
                    resolver.bounded(look_up).await
                })
            })
            .collect();
        spawn_blocking(move || all_run.wait()).await.unwrap();
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        for gave_up in waiting {
            assert!(gave_up.await.is_err());
        }
        assert_eq!(resolver.lookups.available_permits(), 0, "their threads are still there");
        let (begun, has_begun) = mpsc::channel();
        let one_more =
            tokio::spawn(
                async move { resolver.bounded(move || begun.send(()).map_err(io::Error::other)).await },
            );
        assert!(has_begun.try_recv().is_err());
        spawn_blocking(move || go_on.wait()).await.unwrap();
        one_more.await.unwrap().unwrap();
        has_begun.recv().unwrap();
    }
}
