//! One connection that carries requests.
//!
//! 1. It is held while there are requests, but for [`HOLD_MAX`] at most: others want the pool, too.
//! 2. A request that is in other transactions' way (deadlock, serialization failure) did nothing, and is sent
//!    again, [`SENDS_MAX`] times at most.
//! 3. A connection that does not answer in time, or leads to a server that is only read, is given up, not given back,
//!    and the others are not believed to be there until they were asked.

use super::{
    Shared,
    error::{STORE, is_answer, is_conflict, told},
    statements::Statements,
};
use crate::store::sql::{ACQUIRE_MAX, ANSWER_MAX, Change, Lane, Row, Swapped};
use semel_core::store::{StoreError, StoreErrorKind};
use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, time::timeout};

/// Longest that a lane begins requests before it gives its connection back.
const HOLD_MAX: Duration = Duration::from_millis(100);
/// Most times that a request is sent which did nothing because of others.
pub const SENDS_MAX: u32 = 8;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What a connection is asked.
pub(super) enum Request {
    Load { identity: [u8; 32], reply: Reply<Option<Row>> },
    Swap { change: Change, reply: Reply<Swapped> },
}

impl Request {
    fn is_forsaken(&self) -> bool {
        match self {
            Self::Load { reply, .. } => reply.is_closed(),
            Self::Swap { reply, .. } => reply.is_closed(),
        }
    }

    fn refuse(self, error: StoreError) {
        match self {
            Self::Load { reply, .. } => drop(reply.send(Err(error))),
            Self::Swap { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}

/// Whether the connection is good for another request.
enum Left {
    Good,
    Broken,
}

/// Carries requests until none is left.
pub(super) async fn serve(mut lane: Lane<Request>, shared: Arc<Shared>) {
    while let Some(request) = lane.next() {
        if request.is_forsaken() {
            continue;
        }
        match acquired(shared.trust.acquire(&shared.pool)).await {
            Ok(connection) => carry(&mut lane, connection, request, &shared).await,
            Err(error) => request.refuse(error),
        }
    }
}

/// A connection of the pool, in bounded time.
pub async fn acquire(pool: &PgPool) -> Result<PoolConnection<Postgres>, StoreError> {
    acquired(pool.acquire()).await
}

async fn acquired(
    acquiring: impl Future<Output = Result<PoolConnection<Postgres>, sqlx::Error>>,
) -> Result<PoolConnection<Postgres>, StoreError> {
    match timeout(ACQUIRE_MAX, acquiring).await {
        Ok(acquired) => acquired.map_err(|error| told("connecting", error)),
        Err(_) => Err(told("connecting", sqlx::Error::PoolTimedOut)),
    }
}

/// Gives a connection back after this, or gives it up if that failed.
pub(super) fn give_back<T>(
    mut connection: PoolConnection<Postgres>,
    after: Result<T, StoreError>,
) -> Result<T, StoreError> {
    if after.is_err() {
        connection.close_on_drop();
    }
    after
}

/// What the server answers, in bounded time.
pub async fn in_time<T>(
    doing: &str,
    asking: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    within(ANSWER_MAX, doing, asking).await
}

/// The same, for what may take this long.
pub(super) async fn within<T>(
    max: Duration,
    doing: &str,
    asking: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match timeout(max, asking).await {
        Ok(answer) => answer.map_err(|error| told(doing, error)),
        Err(_) => Err(silent(doing)),
    }
}

/// The server did not answer while doing this.
pub fn silent(doing: &str) -> StoreError {
    let context = format!("{doing}: the server did not answer in time; try again");
    StoreError::new(StoreErrorKind::Unavailable, STORE, context)
}

async fn carry(
    lane: &mut Lane<Request>,
    mut connection: PoolConnection<Postgres>,
    mut request: Request,
    shared: &Shared,
) {
    let since = Instant::now();
    loop {
        if let Left::Broken = perform(&mut connection, request, &shared.statements).await {
            shared.trust.shake();
            connection.close_on_drop();
            return;
        }
        if since.elapsed() > HOLD_MAX {
            return;
        }
        match lane.next() {
            Some(next) => request = next,
            None => return,
        }
    }
}

async fn perform(connection: &mut PgConnection, request: Request, statements: &Statements) -> Left {
    match request {
        Request::Load { identity, reply } => {
            let asked = timeout(ANSWER_MAX, statements.load(connection, &identity)).await;
            answered("loading a record", asked, reply)
        }
        Request::Swap { change, reply } => {
            let asked = timeout(ANSWER_MAX, swap(connection, &change, statements)).await;
            answered("writing a record", asked, reply)
        }
    }
}

async fn swap(
    connection: &mut PgConnection,
    change: &Change,
    statements: &Statements,
) -> Result<Swapped, sqlx::Error> {
    let mut sends = 1;
    loop {
        match statements.swap(connection, change).await {
            Err(error) if is_conflict(&error) && sends < SENDS_MAX => sends += 1,
            swapped => return swapped,
        }
    }
}

fn answered<T>(
    doing: &str,
    asked: Result<Result<T, sqlx::Error>, tokio::time::error::Elapsed>,
    reply: Reply<T>,
) -> Left {
    let (answer, left) = match asked {
        Ok(Ok(value)) => (Ok(value), Left::Good),
        Ok(Err(error)) => {
            let left = if is_answer(&error) { Left::Good } else { Left::Broken };
            (Err(told(doing, error)), left)
        }
        Err(_) => (Err(silent(doing)), Left::Broken),
    };
    // Nobody waits for it any more: then nobody is told.
    drop(reply.send(answer));
    left
}
