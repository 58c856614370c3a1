//! Swaps of many callers in one command.
//!
//! 1. [`Gathering`] decides who goes with whom, and when.
//! 2. Each swap has its own outcome, and one that meets with something foreign spoils no other.
//! 3. A batch is a task of its own: a caller that goes away takes nobody's swap with it.
//! 4. A runtime that ends takes its batches with it, and holds up nobody who uses the store on another.
//! 5. Every answer tells the server's time, which is learnt.
//!
//! A cluster has none: the keys of a command must lie in one slot there.

use super::{
    connection::Connection,
    error::lost_task,
    gathering::{Gathering, Next, Waiting},
    script::{Reply, Request, SWAPS, Said, command},
};
use crate::store::offset::LearnedClock;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind};
use semel_core::{store::StoreError, time::Clock as _};
use std::{
    iter::once,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Where swaps gather, and what sends them.
pub(super) struct Batches {
    connection: Connection,
    clock: Arc<LearnedClock>,
    /// The script's, by which it is sent.
    hash: String,
    gathering: Mutex<Gathering>,
}

impl Batches {
    pub(super) fn new(connection: Connection, clock: Arc<LearnedClock>) -> Self {
        let hash = redis::Script::new(SWAPS).get_hash().to_owned();
        Self { connection, clock, hash, gathering: Mutex::default() }
    }

    /// Sends a swap, with others that come at the same time, and gives what became of it.
    pub(super) async fn send(self: &Arc<Self>, request: Request) -> Result<RedisResult<Reply>, StoreError> {
        if self.connection.is_cluster() {
            return Ok(self.send_alone(&request).await);
        }
        let (reply, replied) = oneshot::channel();
        let next = self.lock().arrive(Waiting { request, reply });
        match next {
            Next::Leave => self.leave(),
            Next::LookAfter => drop(tokio::spawn(self.look_after())),
            Next::Wait => {}
        }
        replied.await.map_err(lost_task)
    }

    /// Sends all who wait, in as many batches as it takes.
    fn leave(self: &Arc<Self>) {
        loop {
            let batch = self.lock().leave();
            let Some(batch) = batch else { return };
            tokio::spawn(self.carry(batch));
        }
    }

    // These two are no `async fn`s: what is to be told in the end is told even if they never begin.

    fn look_after(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let turn = Finally::tell(self, Gathering::turn_is_over);
        let batches = Arc::clone(self);
        async move {
            tokio::task::yield_now().await;
            drop(turn);
            let may_leave = batches.lock().may_leave();
            if may_leave {
                batches.leave();
            }
        }
    }

    fn carry(self: &Arc<Self>, batch: Vec<Waiting>) -> impl Future<Output = ()> + Send + use<> {
        let under_way = Finally::tell(self, Gathering::batch_is_over);
        let batches = Arc::clone(self);
        async move {
            batches.deliver(batch).await;
            drop(under_way);
            let is_ours = batches.lock().look_after();
            if is_ours {
                batches.look_after().await;
            }
        }
    }

    /// Sends a batch, and tells everybody what became of theirs. Whoever has gone away needs no answer.
    async fn deliver(&self, mut batch: Vec<Waiting>) {
        batch.sort_by_key(|it| !it.request.is_new());
        let said =
            self.evaluate(batch.len(), |script| command(script, batch.iter().map(|it| &it.request))).await;
        match said {
            Ok(mut said) => batch.into_iter().enumerate().for_each(|(place, Waiting { request, reply })| {
                drop(reply.send(said.about(place, &request)));
            }),
            Err(error) => batch.into_iter().for_each(|it| drop(it.reply.send(Err(error.clone())))),
        }
    }

    async fn send_alone(&self, request: &Request) -> RedisResult<Reply> {
        let mut said = self.evaluate(1, |script| command(script, once(request))).await?;
        said.about(0, request)
    }

    /// Sends so many swaps: the script by its hash, and whole if the server does not know it. The command is given
    /// how to begin.
    async fn evaluate(&self, swaps: usize, command: impl Fn((&str, &str)) -> Cmd) -> RedisResult<Said> {
        match self.ask(swaps, &command(("EVALSHA", &self.hash))).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.ask(swaps, &command(("EVAL", SWAPS))).await
            }
            result => result,
        }
    }

    async fn ask(&self, swaps: usize, command: &Cmd) -> RedisResult<Said> {
        let sent = self.clock.monotonic();
        let said = Said::read(self.connection.send(command).await?, swaps)?;
        self.clock.learn(said.time(), sent, self.clock.monotonic());
        Ok(said)
    }

    /// Nothing that is done under the lock panics.
    fn lock(&self) -> MutexGuard<'_, Gathering> {
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the gathering something when it is dropped: also if its task ends with its runtime.
struct Finally {
    batches: Arc<Batches>,
    tell: fn(&mut Gathering),
}

impl Finally {
    fn tell(batches: &Arc<Batches>, tell: fn(&mut Gathering)) -> Self {
        Self { batches: Arc::clone(batches), tell }
    }
}

impl Drop for Finally {
    fn drop(&mut self) {
        (self.tell)(&mut self.batches.lock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{
        Client,
        aio::{ConnectionManager, ConnectionManagerConfig},
    };
    use semel_core::{key::Key, record::Record, time::Timestamp};

    fn request(id: u32) -> Request {
        let key = Key::new("batch", id).expect("a number is an id");
        let now = Timestamp::from_millis(1_800_000_000_000);
        let record = Record {
            fingerprint: semel_core::fingerprint::Fingerprint::EMPTY,
            state: semel_core::record::State::Pending { due_at: now, error: None },
            attempts: 1,
            created_at: now,
            updated_at: now,
            expires_at: Timestamp::NEVER,
        };
        Request::new(id.to_string().into(), &key, None, &record, now).expect("no fence is needed")
    }

    /// Nobody answers there; what was sent is under way until its runtime is dropped.
    #[test]
    fn a_runtime_that_ends_takes_its_batches_with_it_and_holds_up_no_other() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let url = format!("redis://{}", silent.local_addr().expect("it is bound"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be had");
        let batches = runtime.block_on(async {
            let client = Client::open(url).expect("this is a URL");
            let config = ConnectionManagerConfig::new();
            let connection = ConnectionManager::new_lazy_with_config(client, config);
            let connection = Connection::from(connection.expect("nothing is connected yet"));
            let batches = Arc::new(Batches::new(connection, Arc::new(LearnedClock::new())));
            for id in 0..3 {
                let batches = Arc::clone(&batches);
                tokio::spawn(async move { batches.send(request(id)).await.is_ok() });
                // Sent one by one, until enough is under way.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            }
            batches
        });
        assert!(!batches.lock().may_leave(), "enough is under way");
        drop(runtime);
        assert!(batches.lock().may_leave(), "nothing is under way");
        assert!(batches.lock().look_after(), "and nobody looks after those who wait");
    }
}
