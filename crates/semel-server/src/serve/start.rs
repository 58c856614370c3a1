//! Starting the server, and ending it well.
//!
//! When it is told to stop, it begins no more calls, and has `shutdown` for everything that is under way: for requests, whose
//! events are kept, and for calls. The address of the admin API, if it is one of its own, is answered until all of that is
//! done, so that a load balancer sees why.

use super::{
    Foundation,
    changed::Picture,
    crashes::Crashes,
    fetch::Outgoing,
    functions::functions,
    health::Health,
    queue,
    reload::{Reread, note, reload, sources},
    signals,
    site::{Inside, Side, Site},
};
use crate::{
    api::{Book, Clerk},
    config::{NoSecret, ServerSettings, warnings},
    exit::Failure,
    ingest::{Absentees, BodyLimits, Ingest, problems::PAGES},
    listen::{self, Door, Stop, Stopper, descriptors},
};
use semel::http::ProblemBase;
use semel_core::{queue::Queue, sabotage::is_on};
use semel_runtime::{
    Runtime, StartError,
    deliver::{Deliver, Proxies},
};
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::mpsc};
use tracing::{error, info, warn};

/// A server that is ready to let senders in.
pub struct Server {
    inside: Arc<Inside>,
    outgoing: Arc<Outgoing>,
    listener: TcpListener,
    admin: Option<TcpListener>,
    settings: ServerSettings,
    stopper: Stopper,
    stop: Stop,
}

/// Runs the server until a signal ends it, or its disk does. The file is read again by what is given.
pub async fn run(mut settings: ServerSettings, reread: Reread) -> Result<(), Failure> {
    descriptors::raise();
    let (queue, foundation) = queue::open(&settings.store, settings.limits.disk_bytes_max).await?;
    let crashes = Crashes::note(&settings);
    crashes.wait().await;
    let in_flight_max = settings.limits.in_flight_max;
    settings.limits.in_flight_max = crashes.in_flight(in_flight_max);
    // Whoever could not start did nothing that could be repeated.
    let server = Server::bind(settings, queue, foundation).await.inspect_err(|_| crashes.forget())?;
    let (signals, reloads) = signals::catch(server.stopper.clone())?;
    let runtime = server.inside.ingest.runtime.clone();
    let trusted = async {
        crashes.steady().await;
        runtime.allow(in_flight_max);
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = server.serve(reread, reloads) => ended,
        never = trusted => never,
    };
    signals.abort();
    if ended.is_ok() {
        crashes.forget();
    }
    ended
}

impl Server {
    /// Starts the runtime, and binds the addresses.
    pub async fn bind(
        settings: ServerSettings,
        queue: Arc<dyn Queue>,
        foundation: Foundation,
    ) -> Result<Self, Failure> {
        let foundation = Arc::new(foundation);
        check_open(&settings, &settings)?;
        check_admin(&settings, &settings)?;
        let (stopper, stop) = listen::stop();
        let listener = bind(settings.listen, "--listen").await?;
        let admin = match settings.admin_listen {
            Some(address) => Some(bind(address, "--admin-listen").await?),
            None => None,
        };
        let outgoing = Arc::new(Outgoing::new(settings.guard.clone(), proxies(&settings)?));
        let (functions, sources) = (functions(&settings.functions)?, sources(&settings, &outgoing)?);
        let deliver: Arc<dyn Deliver> = Arc::<Outgoing>::clone(&outgoing);
        let runtime = Runtime::builder(queue, deliver)
            .functions(functions)
            .memory_max(settings.limits.memory_bytes_max as usize)
            .in_flight_max(settings.limits.in_flight_max)
            .alone(foundation.is_alone)
            .start()
            .await
            .map_err(|error| not_started(&error))?;
        let absentees = Absentees::default();
        let (file, guard) = (&settings.functions, &settings.guard);
        let book = Book::open(runtime.clone(), file, guard, absentees.clone()).await?;
        let api = Clerk::new(runtime.clone(), book, Arc::clone(&foundation), &settings)
            .map_err(|error| no_token(&error))?;
        let problems = problems(&settings);
        let limits = BodyLimits {
            bytes_max: settings.limits.body_bytes_max,
            rate_min: settings.limits.body_rate_min,
            grace: settings.body_grace,
        };
        let buffer_bytes_max = settings.limits.buffer_bytes_max;
        let inside = Arc::new(Inside {
            health: Health::new(runtime.clone(), stop.clone(), Arc::clone(&foundation)),
            ingest: Ingest::new(runtime, sources, absentees, limits, buffer_bytes_max, problems.clone()),
            api,
            foundation,
            trusted: settings.trusted_proxies.clone(),
            problems,
        });
        Ok(Self { inside, outgoing, listener, admin, settings, stopper, stop })
    }

    /// Where senders come in: the port that was found, if none was named.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Lets senders in until it is told to stop, and finishes what is under way. A queue that stopped for good ends it at once:
    /// nothing that is under way could be written down.
    pub async fn serve(self, reread: Reread, mut reloads: mpsc::Receiver<()>) -> Result<(), Failure> {
        let Self { inside, outgoing, listener, admin, settings, stopper, mut stop } = self;
        let address = |listener: &TcpListener| {
            listener.local_addr().map_or_else(|_| "?".to_owned(), |it| it.to_string())
        };
        let (functions, sources) = (settings.functions.len(), settings.sources.len());
        let admin_address = admin.as_ref().map(address);
        info!(address = address(&listener), admin = admin_address, functions, sources, "listening");
        warn_of(&settings);
        if functions == 0 {
            warn!("there are no functions: every event is refused; add one with `--function NAME=URL`");
        }
        let patience = settings.shutdown;
        let door = |side: Side| {
            let site = Site { side, inside: Arc::clone(&inside) };
            let exempt = if side == Side::Admin { Vec::new() } else { settings.trusted_proxies.clone() };
            Arc::new(Door::new(site, settings.limits.listen.clone(), exempt, problems(&settings)))
        };
        let side = if admin.is_some() { Side::Events } else { Side::Both };
        let (admin_stopper, admin_stop) = listen::stop();
        let admin = admin.map(|listener| {
            tokio::spawn(listen::serve(listener, door(Side::Admin), admin_stop, ADMIN_END_MAX))
        });
        let serving = listen::serve(listener, door(side), stop.clone(), patience);
        let runtime = &inside.ingest.runtime;
        let still = still_finishing(runtime, stop.clone());
        let mut picture = Picture::of(&settings);
        let told = async {
            loop {
                let changes = tokio::select! {
                    Some(()) = reloads.recv() => reload(&reread, &settings, &inside, &outgoing, &mut picture),
                    () = stop.requested() => break,
                };
                // Whoever tells it to stop does not wait for that.
                tokio::select! {
                    () = note(runtime, &changes) => {}
                    () = stop.requested() => break,
                }
            }
            // At once, and not when the last request has ended: what is begun now has less time than it was promised.
            runtime.start_nothing_more();
            info!(calls = calls(runtime), "no more calls are begun: finishing those under way");
            Instant::now()
        };
        let following = tokio::spawn(inside.api.follow());
        let ended = tokio::select! {
            ended = async { tokio::join!(serving, told) } => Ok(ended),
            cause = inside.foundation.watch() => Err(broken(&inside.foundation.place, &cause)),
            never = still => match never {},
        };
        following.abort();
        let (all_finished, since) = ended?;
        let patience = if is_on("serve_stops_at_once") { Duration::ZERO } else { patience };
        let left = patience.saturating_sub(since.elapsed());
        let all_settled = tokio::select! {
            all_settled = runtime.shutdown(left) => all_settled,
            never = still_finishing(runtime, stop.clone()) => match never {},
        };
        // Last of all: until here, whoever asks is told that it is stopping.
        admin_stopper.stop();
        if let Some(admin) = admin {
            // It does not panic; and if it did, everything else has ended.
            let _ = admin.await;
        }
        drop(stopper);
        match (all_settled, all_finished) {
            (true, true) => info!("stopped"),
            (true, false) => {
                warn!(patience = ?patience, "stopped with requests under way: who sent them is to send them again");
            }
            (false, _) => {
                warn!(patience = ?patience, "stopped with calls under way: they are taken over when their leases lapse");
            }
        }
        Ok(())
    }
}

/// Says what the file asks for and cannot have.
pub(super) fn warn_of(settings: &ServerSettings) {
    for warning in warnings(settings) {
        warn!(warning, "the file asks for what it cannot have");
    }
}

/// How often it is said that something is still being finished.
const STILL_FINISHING: Duration = Duration::from_secs(1);
/// How long those who ask for readiness may take when everything else has ended.
const ADMIN_END_MAX: Duration = Duration::from_secs(1);

/// Says again and again, once it was told to stop, that it is still at it.
async fn still_finishing(runtime: &Runtime, mut stop: Stop) -> Infallible {
    stop.requested().await;
    loop {
        tokio::time::sleep(STILL_FINISHING).await;
        info!(calls = calls(runtime), "still finishing what is under way");
    }
}

/// How many calls are under way.
fn calls(runtime: &Runtime) -> u32 {
    runtime.status().iter().map(|it| it.in_flight).sum()
}

/// The queue stopped for good.
fn broken(place: &str, cause: &str) -> Failure {
    error!(
        store = place,
        cause, "the disk no longer keeps what it is given: ending, so that a restart reads what is there"
    );
    Failure::broken(format!("`{place}` could not be written, and nothing after that is sure"))
        .cause(cause)
        .hint("mend the disk, and start again: nothing that was acknowledged is lost")
}

/// What is on the way out.
fn proxies(settings: &ServerSettings) -> Result<Proxies, Failure> {
    if !settings.proxied {
        return Ok(Proxies::default());
    }
    Proxies::from_environment().map_err(|error| {
        Failure::usage("`server.proxy` is `environment`, and that cannot be done")
            .because(&error)
            .hint("mend `HTTP_PROXY`, `HTTPS_PROXY` or `ALL_PROXY`")
    })
}

fn not_started(error: &StartError) -> Failure {
    match error {
        StartError::Functions(error) => Failure::usage("the functions do not go together").because(error),
        StartError::Queue(error) => Failure::unavailable("the queue cannot be read")
            .because(error)
            .hint("see that the store is there, and start again"),
    }
}

/// Refuses to let the whole network send events, unless that was asked for. Where it listens is said by the first settings,
/// who may by the second.
pub(super) fn check_open(running: &ServerSettings, settings: &ServerSettings) -> Result<(), Failure> {
    if !settings.lets_everybody_send(running.listen) {
        return Ok(());
    }
    let what = format!("`--listen {}`: everybody there could send events to `/events`", running.listen);
    Err(Failure::usage(what).hint(
        "say who may, below `[events]` in the file: `auth = \"bearer\"` with a `secret`, or `auth = \"none\"` if everybody may",
    ))
}

/// Refuses to let the whole network operate a server, whatever else was asked for. Where it listens is said by the first
/// settings, who may by the second.
pub(super) fn check_admin(running: &ServerSettings, settings: &ServerSettings) -> Result<(), Failure> {
    let (flag, address) = match running.admin_listen {
        Some(address) => ("--admin-listen", address),
        None => ("--listen", running.listen),
    };
    if !settings.lets_everybody_operate(address) {
        return Ok(());
    }
    Err(Failure::usage(format!("`{flag} {address}`: everybody there could operate this server")).hint(
        "say who may, in the file: `[[token]]` with a `name`, a `role` and a `secret`; or give the admin API an address of this \
         machine: `--admin-listen 127.0.0.1:8788`",
    ))
}

/// A token that is not where the file says.
pub(super) fn no_token(error: &NoSecret) -> Failure {
    Failure::usage("a `[[token]]` cannot be used")
        .because(error)
        .hint("mend its secret; the file itself is right")
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let failure =
            Failure::unavailable(format!("`{flag} {address}`: cannot listen there")).because(&error);
        match error.kind() {
            io::ErrorKind::AddrInUse => failure.hint("end the program that does, or choose another port"),
            io::ErrorKind::PermissionDenied => failure.hint("choose a port above 1023"),
            _ => failure.hint("choose an address of this machine"),
        }
    })
}

fn problems(settings: &ServerSettings) -> ProblemBase {
    ProblemBase::new(settings.problem_base.as_deref().unwrap_or(PAGES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use semel_core::store::{StoreError, StoreErrorKind};

    #[test]
    fn what_ends_a_server_or_keeps_it_from_starting_says_what_to_do() {
        let queue = StoreError::new(StoreErrorKind::Unavailable, "postgres", "read a document");
        let all = [
            broken("./semel-data", "sync of `journal-7.log`: input/output error"),
            not_started(&StartError::Queue(queue)),
        ];
        let told = all.iter().map(|it| format!("exit code {}\n{it}", it.code() as u8));
        assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r"
        exit code 70
        error: `./semel-data` could not be written, and nothing after that is sure
          sync of `journal-7.log`: input/output error

        hint: mend the disk, and start again: nothing that was acknowledged is lost

        exit code 69
        error: the queue cannot be read
          postgres store: read a document

        hint: see that the store is there, and start again
        ");
    }
}
