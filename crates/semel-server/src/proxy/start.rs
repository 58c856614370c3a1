//! Starting the proxy, and ending it well.
//!
//! 1. The store is opened and asked what it promises, then the addresses are bound; only then anybody is let in.
//! 2. SIGTERM and SIGINT stop it: nobody is accepted any more, what is under way is finished within `shutdown`, and the
//!    process ends with 0. A second signal ends it at once. The address of health and readiness, if it is one of its own, is
//!    answered until all of that is done, so that a load balancer sees why.

use super::{
    body::BodyLimits,
    forward::{Answer, Forward, Forwarding},
    gateway::{Gateway, Inside},
    health::Health,
    memory::Memory,
    pattern::canonical,
    resolve::{self, Doubts},
    routes::Routes,
    upstream::upstream,
};
use crate::{
    config::ProxySettings,
    exit::Failure,
    listen::{self, Arrived, Door, Stop, Stopper, descriptors},
    store_url,
};
use http::Response;
use hyper::service::Service;
use semel::{BoxFuture, Once, cleanup::Cleanup, http::ProblemBase};
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket},
    signal::unix::SignalKind,
};
use tracing::{info, warn};

/// What a second signal ends the process with: as if it had not been caught.
const INTERRUPTED: i32 = 130;

/// Most connections that wait to be accepted; a crowd that comes at once is more than the usual thousand.
const BACKLOG_MAX: u32 = 4096;

/// How long those who ask for health may take when everything else has ended.
const ADMIN_END_MAX: Duration = Duration::from_secs(1);

/// A proxy that is ready to let clients in.
pub struct Proxy {
    gateway: Gateway,
    listener: TcpListener,
    admin: Option<TcpListener>,
    settings: ProxySettings,
    once: Once,
    stopper: Stopper,
    stop: Stop,
}

/// Runs the proxy until a signal ends it.
pub async fn run(settings: ProxySettings) -> Result<(), Failure> {
    descriptors::raise();
    let once = store_url::open(&settings.store, settings.seal_keys.as_deref()).await?;
    let proxy = Proxy::bind(settings, once)?;
    let signals = proxy.stop_on_signals()?;
    proxy.serve().await;
    signals.abort();
    Ok(())
}

impl Proxy {
    /// Binds the addresses. Only within a tokio runtime.
    pub fn bind(settings: ProxySettings, once: Once) -> Result<Self, Failure> {
        let (stopper, stop) = listen::stop();
        let listener = bind(settings.listen, "--listen")?;
        let admin = match settings.admin_listen {
            Some(address) => Some(bind(address, "--admin-listen")?),
            None => None,
        };
        let gateway = gateway(&settings, &once, &stop)?;
        Ok(Self { gateway, listener, admin, settings, once, stopper, stop })
    }

    /// Where clients come in: the port that was found, if none was named.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    fn stop_on_signals(&self) -> Result<tokio::task::JoinHandle<()>, Failure> {
        let caught = |kind| {
            tokio::signal::unix::signal(kind)
                .map_err(|error| Failure::unavailable("signals cannot be caught").because(&error))
        };
        let (mut terminate, mut interrupt) =
            (caught(SignalKind::terminate())?, caught(SignalKind::interrupt())?);
        let stopper = self.stopper.clone();
        Ok(tokio::spawn(async move {
            let mut next = async || {
                tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                }
            };
            let signal = next().await;
            stopper.stop();
            info!(signal, "stopping: finishing what is under way");
            next().await;
            crate::log::say("stopped by a second signal");
            std::process::exit(INTERRUPTED);
        }))
    }

    /// Lets clients in until it is told to stop, and finishes what is under way.
    pub async fn serve(self) {
        let Self { gateway, listener, admin, settings, once, stopper, mut stop } = self;
        let address = |listener: &TcpListener| {
            listener.local_addr().map_or_else(|_| "?".to_owned(), |it| it.to_string())
        };
        let upstream = settings.upstream.as_ref().map(|it| format!("{}{}", it.authority, it.base));
        let admin_address = admin.as_ref().map(address);
        info!(address = address(&listener), admin = admin_address, upstream, "listening");
        let cleanup = Cleanup::new(once.clone()).start();
        let patience = settings.timeouts.shutdown;
        let door = |exempt: bool| {
            let networks = if exempt { settings.trusted_proxies.clone() } else { Vec::new() };
            (settings.limits.listen.clone(), networks)
        };
        let (admin_stopper, admin_stop) = listen::stop();
        let admin = admin.map(|listener| {
            let (limits, exempt) = door(false);
            let door = Door::new(Admin(Arc::clone(&gateway.0)), limits, exempt, problems(&settings));
            tokio::spawn(listen::serve(listener, Arc::new(door), admin_stop, ADMIN_END_MAX))
        });
        let (limits, exempt) = door(true);
        let door = Arc::new(Door::new(gateway.clone(), limits, exempt, problems(&settings)));
        let serving = listen::serve(listener, door, stop.clone(), patience);
        let since = async {
            stop.requested().await;
            Instant::now()
        };
        let (all_finished, since) = tokio::join!(serving, since);
        // Those whose clients have gone, too.
        let left = patience.saturating_sub(since.elapsed());
        let all_recorded = tokio::time::timeout(left, gateway.0.routes.idle()).await.is_ok();
        // Last of all: until here, whoever asks is told that it is stopping.
        admin_stopper.stop();
        if let Some(admin) = admin {
            // It does not panic; and if it did, everything else has ended.
            let _ = admin.await;
        }
        cleanup.stop().await;
        drop(stopper);
        if all_finished && all_recorded {
            info!("stopped");
        } else {
            warn!(patience = ?patience, "stopped with requests under way: those with keys stand until their lease lapses");
        }
    }
}

fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    listen(address).map_err(|error| {
        let failure =
            Failure::unavailable(format!("`{flag} {address}`: cannot listen there")).because(&error);
        match error.kind() {
            io::ErrorKind::AddrInUse => failure.hint("end the program that does, or choose another port"),
            io::ErrorKind::PermissionDenied => failure.hint("choose a port above 1023"),
            _ => failure.hint("choose an address of this machine"),
        }
    })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As every server does: a port is free as soon as its last one has ended.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG_MAX)
}

fn problems(settings: &ProxySettings) -> ProblemBase {
    settings.problem_base.as_ref().map_or_else(ProblemBase::default, ProblemBase::new)
}

fn gateway(settings: &ProxySettings, once: &Once, stop: &Stop) -> Result<Gateway, Failure> {
    let url = settings.upstream.clone().ok_or_else(|| {
        Failure::usage("where to forward requests is not said")
            .hint("`--upstream http://127.0.0.1:9000`, or `upstream` below `[proxy]` in the file")
    })?;
    let forward = Forward(Arc::new(Forwarding {
        client: upstream(settings, &url)?,
        url,
        is_http2: settings.upstream_http2,
        host: settings.host,
        via: settings.via.clone(),
        timeouts: settings.timeouts.clone(),
        trusted: settings.trusted_proxies.clone(),
        problems: problems(settings),
    }));
    Ok(Gateway(Arc::new(Inside {
        routes: Routes::new(settings, once, &forward),
        forward,
        health: Arc::new(Health::new(once.clone(), stop.clone(), problems(settings))),
        has_admin: settings.admin_listen.is_some(),
        body_limits: BodyLimits {
            bytes_max: settings.limits.body_bytes_max,
            rate_min: settings.limits.body_rate_min,
            grace: settings.timeouts.body_grace,
        },
        problems: problems(settings),
        memory: Memory::new(settings.limits.buffer_bytes_max),
        doubts: Doubts::default(),
    })))
}

/// What is asked for on the address of its own.
#[derive(Clone)]
struct Admin(Arc<Inside>);

impl Service<Arrived> for Admin {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, (request, connection): Arrived) -> Self::Future {
        let inside = Arc::clone(&self.0);
        Box::pin(async move {
            let path = canonical(request.uri().path()).into_owned();
            Ok(match path.as_str() {
                resolve::PATH => inside.resolve(request, &connection).await,
                _ => inside.health.answer(request.method(), &path).await,
            })
        })
    }
}
