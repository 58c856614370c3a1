//! Swaps of many callers in one command.
//!
//! 1. Whoever comes first lets others come along for a few turns of the scheduler, and then all are sent. Nobody waits
//!    for a command that is under way.
//! 2. A batch holds a key once. Whoever wants one that is in it already comes with the next.
//! 3. Each swap has its own outcome, and one that meets with something foreign spoils no other.
//! 4. A batch is a task of its own: a caller that goes away takes nobody's swap with it.
//!
//! A cluster has none: the keys of a command must lie in one slot there. Alone, a swap is sent as [`super::script`]
//! has it.

use super::{
    connection::Connection,
    error::lost_task,
    script::{Request, Swapping, digits, evaluate},
};
use redis::{RedisResult, Value, cmd};
use semel_core::store::StoreError;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Most swaps in a batch: it holds up everybody else's commands for half a millisecond.
const SWAPS_MAX: usize = 128;
/// Most bytes in a batch, unless a single record is larger.
const BYTES_MAX: usize = 1024 * 1024;

/// For how many turns of the scheduler others may come along.
const TURNS: usize = 3;

/// KEYS: the names of new records, then of others. ARGV: how many are new; the bytes of each new one; then for each
/// other one the expected fence, the next fence with the bytes, and in how many milliseconds it may go, or nothing.
/// Gives for each what the script for one gives, or a list with an error.
const SWAPS: &str = "\
local new, replies = tonumber(ARGV[1]), {}
if new > 0 then
  local time = redis.call('TIME')
  local fence = string.format('%010d%06d', time[1], time[2])
  local number, values = tonumber(fence), {}
  for i = 1, new do
    values[2 * i - 1] = KEYS[i]
    values[2 * i] = fence .. ARGV[i + 1]
  end
  local found = nil
  if redis.call('MSETNX', unpack(values)) == 0 then found = redis.call('MGET', unpack(KEYS, 1, new)) end
  for i = 1, new do
    if found and found[i] then replies[i] = found[i]
    elseif not found or redis.call('SET', KEYS[i], values[2 * i], 'NX') then replies[i] = number
    else
      local stored = redis.pcall('GET', KEYS[i])
      if type(stored) == 'table' then stored = {stored.err} end
      replies[i] = stored
    end
  end
end
if new < #KEYS then
  local found = redis.call('MGET', unpack(KEYS, new + 1))
  local at = new + 2
  for i = new + 1, #KEYS do
    local stored = found[i - new]
    if stored and string.sub(stored, 1, 16) == ARGV[at] then
      if ARGV[at + 2] == '' then redis.call('SET', KEYS[i], ARGV[at + 1])
      else redis.call('SET', KEYS[i], ARGV[at + 1], 'PX', ARGV[at + 2]) end
      replies[i] = 1
    else replies[i] = stored end
    at = at + 3
  end
end
return replies";

/// Where swaps gather.
pub(super) struct Batches {
    connection: Connection,
    alone: Swapping,
    hash: String,
    gathering: Mutex<Gathering>,
}

#[derive(Default)]
struct Gathering {
    waiting: Vec<Waiting>,
    /// Whether somebody will send those that wait.
    is_under_way: bool,
}

struct Waiting {
    request: Request,
    reply: oneshot::Sender<RedisResult<Value>>,
}

impl Batches {
    pub(super) fn new(connection: Connection) -> Self {
        let hash = redis::Script::new(SWAPS).get_hash().to_owned();
        Self { connection, alone: Swapping::new(), hash, gathering: Mutex::default() }
    }

    /// Sends a swap, with others that come at the same time, and gives what the server says to it.
    pub(super) async fn send(self: &Arc<Self>, request: Request) -> Result<RedisResult<Value>, StoreError> {
        if self.connection.is_cluster() || !request.may_gather() {
            return Ok(self.alone.send(&self.connection, &request).await);
        }
        let (reply, replied) = oneshot::channel();
        let is_first = {
            let mut gathering = self.lock();
            gathering.waiting.push(Waiting { request, reply });
            !std::mem::replace(&mut gathering.is_under_way, true)
        };
        if is_first {
            tokio::spawn(Arc::clone(self).gather());
        }
        replied.await.map_err(lost_task)
    }

    /// Sends all that wait after these turns, in as many batches as it takes.
    async fn gather(self: Arc<Self>) {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        loop {
            let (batch, is_last) = {
                let mut gathering = self.lock();
                let batch = take(&mut gathering.waiting);
                gathering.is_under_way = !gathering.waiting.is_empty();
                (batch, !gathering.is_under_way)
            };
            let delivery = Arc::clone(&self).deliver(batch);
            if is_last {
                return delivery.await;
            }
            tokio::spawn(delivery);
        }
    }

    async fn deliver(self: Arc<Self>, batch: Vec<Waiting>) {
        let replies = match &batch[..] {
            [one] => self.alone.send(&self.connection, &one.request).await.map(|it| vec![it]),
            [..] => self.send_all(&batch).await,
        };
        answer(batch, replies);
    }

    /// What the server says to each, in order.
    async fn send_all(&self, batch: &[Waiting]) -> RedisResult<Vec<Value>> {
        let reply = evaluate(&self.connection, &self.hash, SWAPS, |script| command(script, batch)).await?;
        match reply {
            Value::Array(replies) if replies.len() == batch.len() => Ok(replies),
            _ => {
                Err((redis::ErrorKind::UnexpectedReturnType, "a batch was answered with something else")
                    .into())
            }
        }
    }

    /// Nothing that is done under the lock panics.
    fn lock(&self) -> MutexGuard<'_, Gathering> {
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the next batch: no key twice, new records first.
fn take(waiting: &mut Vec<Waiting>) -> Vec<Waiting> {
    let (mut names, mut bytes, mut count) = (HashSet::new(), 0, 0);
    let is_in = |it: &mut Waiting| {
        let fits = count < SWAPS_MAX && (bytes == 0 || bytes + it.request.value.len() <= BYTES_MAX);
        let is_in = fits && names.insert(it.request.identity);
        if is_in {
            bytes += it.request.value.len();
            count += 1;
        }
        is_in
    };
    let mut batch: Vec<Waiting> = waiting.extract_if(.., is_in).collect();
    batch.sort_by_key(|it| it.request.expected.is_some());
    batch
}

fn command((name, script): (&str, &str), batch: &[Waiting]) -> redis::Cmd {
    let mut command = cmd(name);
    command.arg(script).arg(batch.len());
    for it in batch {
        command.arg(&it.request.name);
    }
    command.arg(batch.iter().filter(|it| it.request.expected.is_none()).count());
    for Waiting { request, .. } in batch {
        match request.expected {
            None => command.arg(&request.value[..]),
            Some(fence) => {
                command.arg(digits(fence)).arg(&request.value[..]);
                request.add_life(&mut command)
            }
        };
    }
    command
}

fn answer(batch: Vec<Waiting>, replies: RedisResult<Vec<Value>>) {
    match replies {
        // Whoever has gone away needs no answer.
        Ok(replies) => batch.into_iter().zip(replies).for_each(|(it, reply)| drop(it.reply.send(Ok(reply)))),
        Err(error) => batch.into_iter().for_each(|it| drop(it.reply.send(Err(error.clone())))),
    }
}
