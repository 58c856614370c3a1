//! A server in this process.

use crate::{
    config::{FunctionSettings, ServerSettings},
    exit::Failure,
    listen::Stopper,
    serve::{Server, open_queue},
    store_url::StoreUrl,
};
use semel_core::{queue::Queue, retry::RetryPolicy};
use semel_runtime::deliver::guard::{Policy, check_url};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc,
    task::JoinHandle,
};

/// How long the threads of a server that crashes may take to end, and its directory to be let go of.
const END_MAX: Duration = Duration::from_secs(10);

/// A server in this process, with threads of its own.
pub(crate) struct Here {
    pub(crate) address: SocketAddr,
    threads: Runtime,
    serving: JoinHandle<Result<(), Failure>>,
    stopper: Stopper,
    queue: Weak<dyn Queue>,
}

impl Here {
    /// Settings of a server on a free port, which keeps what it has in this directory, and calls this function with
    /// everything.
    pub(crate) fn settings(
        directory: &Path,
        function: (&str, SocketAddr),
        policy: &RetryPolicy,
    ) -> Result<ServerSettings, Failure> {
        let mut settings = ServerSettings::for_use(true);
        settings.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        settings.store = StoreUrl::parse(&directory.display().to_string()).map_err(Failure::usage)?;
        let near = Policy { allow: Vec::new(), loopback: true };
        let (name, address) = function;
        let url = check_url(&format!("http://{address}/"), &near);
        let url = url.map_err(|error| Failure::bug("the function has no address").because(&error))?;
        settings.functions.push(FunctionSettings::new(name.to_owned(), url, policy.clone()));
        Ok(settings)
    }

    /// Starts it. Blocks until it listens.
    pub(crate) fn start(settings: ServerSettings) -> Result<Self, Failure> {
        let threads = Builder::new_multi_thread().enable_all().thread_name("semel").build();
        let threads =
            threads.map_err(|error| Failure::unavailable("threads cannot be started").because(&error))?;
        let again = settings.clone();
        let (queue, server) = threads.block_on(async {
            let (queue, foundation) = open_queue(&settings.store, settings.limits.disk_bytes_max).await?;
            let weak = Arc::downgrade(&queue);
            Ok::<_, Failure>((weak, Server::bind(settings, queue, foundation).await?))
        })?;
        let address = server.address();
        let address = address.map_err(|error| Failure::unavailable("nowhere to listen").because(&error))?;
        let stopper = server.stopper();
        let (_never, reloads) = mpsc::channel(1);
        let serving = threads.spawn(server.serve(Box::new(move || Ok(again.clone())), reloads));
        Ok(Self { address, threads, serving, stopper, queue })
    }

    /// Drops it where it stands. Blocks until its directory can be opened again.
    pub(crate) fn crash(self) -> Result<(), Failure> {
        self.threads.shutdown_timeout(END_MAX);
        let since = Instant::now();
        while self.queue.strong_count() > 0 {
            if since.elapsed() > END_MAX {
                return Err(Failure::bug("a server that was dropped holds its directory"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Ends it well.
    pub(crate) fn stop(self) {
        self.stopper.stop();
        // It has a patience of its own.
        let _ = self.threads.block_on(self.serving);
        self.threads.shutdown_timeout(END_MAX);
    }
}
