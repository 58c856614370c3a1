//! What nodes tell each other: something is due, and whoever sleeps may ask for it.
//!
//! 1. A hint shortens a sleep, and does nothing else. Whoever waits asks by the clock all the same, so one that is lost,
//!    late or told twice changes nothing.
//! 2. Nobody listens until somebody waits for a hint. Listening then takes a connection beside the pool, which is made again
//!    when it breaks. Behind a pooler that passes no notifications on, it hears nothing.
//! 3. What this node leaves to be claimed it tells the others, and at most once in [`TELL_EVERY`]: `NOTIFY` takes a lock
//!    that all who commit one share.

use semel_core::{execution::Execution, record::Status, time::Timestamp};
use sqlx::{
    PgPool,
    postgres::{PgListener, PgPoolOptions},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, task::JoinSet, time::timeout};

/// Shortest time between two hints of one node.
const TELL_EVERY: Duration = Duration::from_millis(50);
/// How long connecting, and telling, may take.
const REPLY_MAX: Duration = Duration::from_secs(5);
/// After so long without a hint the connection is made anew: it may have died without a word.
const SILENCE_MAX: Duration = Duration::from_mins(5);
/// First pause before a connection that could not be had is tried again; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// The hints of one queue. What it began ends with it.
pub(super) struct Hints {
    line: Arc<Line>,
    tasks: Mutex<JoinSet<()>>,
}

struct Line {
    channel: String,
    /// Somebody told something.
    heard: Notify,
    /// There is something to tell.
    wanted: Notify,
}

impl Hints {
    pub(super) fn new(channel: String) -> Self {
        let line = Arc::new(Line { channel, heard: Notify::new(), wanted: Notify::new() });
        Self { line, tasks: Mutex::default() }
    }

    /// Resolves when somebody told something since it was last asked.
    pub(super) async fn heard(&self, pool: &PgPool) {
        self.begin(pool);
        self.line.heard.notified().await;
    }

    /// Tells the others, if one of these is left to be claimed now.
    pub(super) fn tell_of<'a>(&self, executions: impl IntoIterator<Item = &'a Execution>, now: Timestamp) {
        if executions.into_iter().any(|it| is_left(it, now)) {
            self.line.wanted.notify_one();
        }
    }

    fn begin(&self, pool: &PgPool) {
        // Nothing that is done under the lock panics.
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.is_empty() {
            tasks.spawn(listen(pool.clone(), Arc::clone(&self.line)));
            tasks.spawn(tell(pool.clone(), Arc::clone(&self.line)));
        }
    }
}

/// Whether anybody may claim it now.
fn is_left(execution: &Execution, now: Timestamp) -> bool {
    execution.status() == Status::Pending && execution.due_at().is_some_and(|it| it <= now)
}

async fn listen(pool: PgPool, line: Arc<Line>) {
    let mut pause = PAUSE_MIN;
    loop {
        match timeout(REPLY_MAX, connected(&pool, &line.channel)).await {
            Ok(Ok(mut listener)) => {
                pause = PAUSE_MIN;
                // Whatever was told before is not told again.
                line.heard.notify_one();
                while let Ok(Ok(Some(_))) = timeout(SILENCE_MAX, listener.try_recv()).await {
                    line.heard.notify_one();
                }
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "other nodes cannot be heard, what they leave is found by the clock");
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(_) => pause = (pause * 2).min(PAUSE_MAX),
        }
        tokio::time::sleep(pause).await;
    }
}

async fn connected(pool: &PgPool, channel: &str) -> Result<PgListener, sqlx::Error> {
    let options = pool.connect_options().as_ref().clone();
    let own = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&own).await?;
    listener.eager_reconnect(false);
    listener.listen(channel).await?;
    Ok(listener)
}

async fn tell(pool: PgPool, line: Arc<Line>) {
    loop {
        line.wanted.notified().await;
        let query = sqlx::query("SELECT pg_notify($1, '')").bind(&line.channel);
        // Nobody needs it.
        let _ = timeout(REPLY_MAX, query.execute(&pool)).await;
        tokio::time::sleep(TELL_EVERY).await;
    }
}
