//! The demo from its beginning to its end.

use super::{
    account::{Account, Books},
    here::Here,
    plan::deliveries,
    scratch::Scratch,
    sender::Post,
    show::{Outcome, Show},
};
use crate::{
    bench::{client::Client, traffic::get},
    cli::text::grouped,
    config::ServerSettings,
    exit::Failure,
};
use semel_core::retry::{Backoff, RetryPolicy};
use std::{
    io,
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};

/// How long it may take at most.
const PATIENCE: Duration = Duration::from_mins(3);
/// How often it is looked how things stand.
const LOOK: Duration = Duration::from_millis(50);
/// How long a call may take. What runs when the server crashes is taken over so long after, and ten seconds.
const TIMEOUT: Duration = Duration::from_secs(1);
const FUNCTION: &str = "charge";

/// What the demo is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) events: u32,
    pub(crate) deliveries: u32,
    pub(crate) seed: u64,
    pub(crate) keep: Option<PathBuf>,
}

/// Runs it. It ends well if every event took effect once.
pub(crate) fn run(asked: &Asked) -> Result<(), Failure> {
    let scratch = Scratch::new(asked.keep.as_deref())?;
    let world = Builder::new_multi_thread().enable_all().thread_name("world").build();
    let world = world.map_err(|error| Failure::unavailable("threads cannot be started").because(&error))?;
    let (address, account) = world
        .block_on(Account::start(asked.seed))
        .map_err(|error| Failure::unavailable("the function has nowhere to listen").because(&error))?;
    let settings = Here::settings(scratch.path(), (FUNCTION, address), &policy())?;
    let mut stage = Stage { asked, world, address, account, show: Show::new(), settings };
    let (outcome, counted) = stage.play()?;
    stage.show.end();
    print!("{}", outcome.table());
    let wrong = stage.wrong(&counted);
    drop(stage.world);
    if let Some(path) = &asked.keep {
        eprintln!(
            "\nWhat the server kept is in `{}`: `semel serve --store {}` opens it.",
            path.display(),
            path.display()
        );
    }
    if wrong.is_empty() {
        println!("\nEvery event took effect once.");
        return Ok(());
    }
    Err(not_once(wrong, asked.seed))
}

/// What the demo promises is not so.
fn not_once(wrong: Vec<String>, seed: u64) -> Failure {
    let failure = Failure::no("not every event took effect once");
    let failure = wrong.into_iter().fold(failure, Failure::cause);
    failure.hint(format!("`semel demo --seed {seed}` does the same again"))
}

/// It takes longer than it may.
fn not_done() -> Failure {
    Failure::no(format!("it was not done in {} s", PATIENCE.as_secs()))
        .hint("try fewer with `--deliveries` and `--events`")
}

fn policy() -> RetryPolicy {
    let backoff = Backoff::Exponential { min: Duration::from_millis(20), max: Duration::from_millis(500) };
    let policy = RetryPolicy::gen2().with_timeout(TIMEOUT).and_then(|it| it.with_backoff(backoff));
    policy.expect("both are within their ranges")
}

/// Everybody who takes part, but the server.
struct Stage<'a> {
    asked: &'a Asked,
    world: Runtime,
    /// Where the account is.
    address: SocketAddr,
    account: Arc<Account>,
    show: Show,
    settings: ServerSettings,
}

/// What the server counts in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counted {
    accepted: u64,
    completed: u64,
}

impl Stage<'_> {
    fn play(&mut self) -> Result<(Outcome, Counted), Failure> {
        let Asked { events, deliveries: count, seed, .. } = *self.asked;
        let post_of = deliveries(events, count, seed);
        let server = Here::start(self.settings.clone())?;
        self.show.happened(&format!(
            "{} deliveries of {} events to http://{}, seed {seed}",
            grouped(count.into()),
            grouped(events.into()),
            server.address
        ));
        let post = Post::new(post_of, server.address);
        let sending = self.world.spawn(Arc::clone(&post).deliver());
        let until = Instant::now() + PATIENCE;
        // In the middle of it: some are done, some are under way, most are to come.
        self.wait(until, &post, |post| post.acknowledged() >= u64::from(count) * 2 / 5)?;
        server.crash()?;
        self.bury(until, &post)?;
        self.show.happened("the server crashed; it is opened again");
        let server = Here::start(self.settings.clone())?;
        post.moved(server.address);
        self.wait(until, &post, |post| post.acknowledged() == u64::from(count))?;
        self.show.happened("all deliveries are acknowledged; what ran at the crash waits for its leases");
        let address = server.address;
        let mut counted = self.counted(address)?;
        while counted.completed < u64::from(events) {
            self.wait_once(until, &post)?;
            counted = self.counted(address)?;
        }
        // Whoever was not done by now would have to be aborted.
        let _ = self.world.block_on(sending);
        server.stop();
        let books = self.account.books();
        let Books { calls, failed, repeated, .. } = *books;
        let (deliveries, again, effects) = (post.acknowledged(), post.again(), books.effects());
        let events = events.into();
        Ok((Outcome { deliveries, events, again, calls, failed, repeated, effects }, counted))
    }

    /// Waits until the account has seen all connections of the server that crashed: one that is made now is behind them.
    fn bury(&mut self, until: Instant, post: &Post) -> Result<(), Failure> {
        let gone = |error: io::Error| Failure::unavailable("the function does not answer").because(&error);
        let probe = TcpStream::connect(self.address).map_err(gone)?;
        let since = probe.local_addr().map_err(gone)?;
        while !self.account.books().is_over(since) {
            self.wait_once(until, post)?;
        }
        Ok(())
    }

    fn wait(&mut self, until: Instant, post: &Post, is_done: impl Fn(&Post) -> bool) -> Result<(), Failure> {
        while !is_done(post) {
            self.wait_once(until, post)?;
        }
        Ok(())
    }

    fn wait_once(&mut self, until: Instant, post: &Post) -> Result<(), Failure> {
        let (effects, failed) = {
            let books = self.account.books();
            (books.effects(), books.failed)
        };
        let events = self.asked.events.into();
        let text = format!(
            "{} deliveries acknowledged, {} failed attempts, {} of {} effects",
            grouped(post.acknowledged()),
            grouped(failed),
            grouped(effects),
            grouped(events)
        );
        self.show.progress(effects, events, &text);
        if Instant::now() > until {
            self.show.end();
            return Err(not_done());
        }
        thread::sleep(LOOK);
        Ok(())
    }

    /// What the server says of itself.
    fn counted(&self, address: SocketAddr) -> Result<Counted, Failure> {
        let text = self.world.block_on(async {
            let mut client = Client::connect(address).await?;
            let answer = client.ask(&get(&address.to_string(), "/metrics")).await?;
            Ok::<_, io::Error>(String::from_utf8_lossy(answer.body).into_owned())
        });
        let text =
            text.map_err(|error| Failure::unavailable("the server does not answer").because(&error))?;
        let value = |name: &str| {
            let line = text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|it| it.parse().ok()).unwrap_or_default()
        };
        Ok(Counted {
            accepted: value(&format!("semel_executions_accepted_total{{function=\"{FUNCTION}\"}}")),
            completed: value(&format!("semel_executions{{function=\"{FUNCTION}\",status=\"COMPLETED\"}}")),
        })
    }

    /// Everything that is not as it should be.
    fn wrong(&self, counted: &Counted) -> Vec<String> {
        let books = self.account.books();
        let events = u64::from(self.asked.events);
        let mut wrong = Vec::new();
        let events_wrong = books.wrong(self.asked.events);
        if let Some(first) = events_wrong.first() {
            wrong.push(format!(
                "{} events were not charged once, with their own amount: the first is `order-{first}`",
                grouped(events_wrong.len() as u64)
            ));
        }
        if books.effects() != events {
            wrong.push(format!(
                "there are {} effects, and {} were expected",
                grouped(books.effects()),
                grouped(events)
            ));
        }
        if books.too_many > 0 {
            wrong.push(format!("{} calls came after one that had been answered", grouped(books.too_many)));
        }
        if *counted != (Counted { accepted: events, completed: events }) {
            wrong.push(format!(
                "the server counts {} executions accepted and {} completed",
                grouped(counted.accepted),
                grouped(counted.completed)
            ));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn a_demo_that_fails_says_what_is_wrong_and_how_to_see_it_again() {
        let wrong = vec![
            "there are 299 effects, and 300 were expected".to_owned(),
            "2 calls came after one that had been answered".to_owned(),
        ];
        assert_snapshot!(format!("{}\n{}", not_once(wrong, 7), not_done()), @r"
        error: not every event took effect once
          there are 299 effects, and 300 were expected
          2 calls came after one that had been answered

        hint: `semel demo --seed 7` does the same again

        error: it was not done in 180 s

        hint: try fewer with `--deliveries` and `--events`
        ");
    }
}
