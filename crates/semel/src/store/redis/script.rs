//! The one script, and what it is told and says.
//!
//! 1. It decides nothing but whether the stored fence is the expected one.
//! 2. It is sent by its hash; a server that does not know it (a fresh one, one that was restarted, another node
//!    of the cluster) is sent it whole, and then knows it.
//! 3. A new record's fence is the server's time, every other one's the next number, which that time has passed by
//!    then: so no command but `TIME`, once per record, and no arithmetic on doubles is needed.
//! 4. A record that was written stays for a margin, even if it has expired already: whoever held its fence is
//!    refused by what stands there, and the time has moved past the fence before the record is gone.

use super::{
    connection::Connection,
    error::{corrupt, foreign, unreadable},
};
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value, cmd};
use semel_core::{
    fence::Fence,
    key::{Identity, Key},
    record::{Record, Stored},
    store::StoreError,
    time::Timestamp,
    wire,
};
use std::time::Duration;

/// How long past its expiry a record is kept: so far may the server's clock be set back without a fence being
/// issued again.
pub const EXPIRY_MARGIN: Duration = Duration::from_mins(10);

/// What is to be remembered for longer than this is kept for ever.
const LIFE_MAX: Duration = Duration::from_hours(24 * 365 * 100);
/// Room for a record with a small result.
const VALUE_BYTES: usize = 256;

/// Digits of a fence in front of a record's bytes: microseconds, until the year 2286.
const FENCE_DIGITS: usize = 16;
/// The highest fence that stays whole in Lua, whose numbers are doubles; the clock reaches it in the year 2255.
const FENCE_MAX: u64 = (1 << 53) - 1;

/// KEYS: the record's name. ARGV: the expected fence or nothing; what to write, with the next fence in front if one
/// was expected; in how many milliseconds it may go, or nothing. Gives the new fence if nothing was expected, 1 if
/// something was, and what stands there, or nothing, if it was lost.
const SWAP: &str = "\
local key, life = KEYS[1], ARGV[3]
if ARGV[1] == '' then
  local time = redis.call('TIME')
  local fence = string.format('%010d%06d', time[1], time[2])
  local value = fence .. ARGV[2]
  local won
  if life == '' then won = redis.call('SET', key, value, 'NX')
  else won = redis.call('SET', key, value, 'NX', 'PX', life) end
  if won then return tonumber(fence) end
elseif redis.call('GETRANGE', key, 0, 15) == ARGV[1] then
  if life == '' then redis.call('SET', key, ARGV[2])
  else redis.call('SET', key, ARGV[2], 'PX', life) end
  return 1
end
return redis.call('GET', key)";

/// The script, with its hash.
pub(super) struct Swapping {
    script: redis::Script,
}

/// What the script is told.
pub(super) struct Request {
    pub(super) identity: Identity,
    pub(super) name: String,
    pub(super) expected: Option<Fence>,
    /// What to write, with its fence in front if that is known.
    pub(super) value: Vec<u8>,
    /// When the server may remove it, from now; `None` for never.
    life: Option<Duration>,
}

/// What the script says.
pub(super) enum Reply {
    /// Written. The fence is the server's time in microseconds.
    Created(Fence),
    /// Written, under the fence after the expected one.
    Updated(Fence),
    /// Not written, because this stands there.
    Lost(Option<Vec<u8>>),
}

impl Request {
    pub(super) fn new(
        name: String,
        key: &Key,
        expected: Option<Fence>,
        record: &Record,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut value = Vec::with_capacity(VALUE_BYTES);
        if let Some(fence) = expected {
            value.extend_from_slice(digits(after(fence)?).as_bytes());
        }
        wire::encode_into(&mut value, key, record);
        let left = record.expires_at.since(now);
        let life = (left < LIFE_MAX).then(|| left + EXPIRY_MARGIN);
        Ok(Self { identity: *key.identity(), name, expected, value, life })
    }
}

impl Request {
    /// Whether it may be one of many: all but new records that are to expire, of which there are few.
    pub(super) fn may_gather(&self) -> bool {
        self.expected.is_some() || self.life.is_none()
    }

    /// Says when the server may remove it.
    pub(super) fn add_life<'a>(&self, command: &'a mut Cmd) -> &'a mut Cmd {
        match self.life {
            Some(life) => command.arg(life.as_millis() as u64),
            None => command.arg(""),
        }
    }
}

/// The fence after this one. It is not later than the server's time, which has moved on since: so it is never issued
/// again, not even after the record is gone.
fn after(fence: Fence) -> Result<Fence, StoreError> {
    let next = Fence::new(fence.get() + 1).filter(|it| it.get() <= FENCE_MAX);
    next.ok_or_else(|| corrupt("a fence from the far future, after which there is none"))
}

pub(super) fn digits(fence: Fence) -> String {
    format!("{:0FENCE_DIGITS$}", fence.get())
}

impl Swapping {
    pub(super) fn new() -> Self {
        Self { script: redis::Script::new(SWAP) }
    }

    pub(super) async fn send(&self, connection: &Connection, request: &Request) -> RedisResult<Value> {
        evaluate(connection, self.script.get_hash(), SWAP, |script| command(script, request)).await
    }
}

/// Sends a script by its hash, and whole if the server does not know it. The command is given how to begin.
pub(super) async fn evaluate(
    connection: &Connection,
    hash: &str,
    code: &str,
    command: impl Fn((&str, &str)) -> Cmd,
) -> RedisResult<Value> {
    match connection.send(&command(("EVALSHA", hash))).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            connection.send(&command(("EVAL", code))).await
        }
        result => result,
    }
}

fn command((name, script): (&str, &str), request: &Request) -> Cmd {
    let mut command = cmd(name);
    command.arg(script).arg(1).arg(&request.name);
    match request.expected {
        Some(fence) => command.arg(digits(fence)),
        None => command.arg(""),
    };
    command.arg(&request.value[..]);
    request.add_life(&mut command);
    command
}

impl Reply {
    pub(super) fn read(expected: Option<Fence>, reply: Value) -> Result<Self, StoreError> {
        match (expected, reply) {
            (None, Value::Int(number)) => {
                let fence = u64::try_from(number).ok().and_then(Fence::new);
                fence.map(Self::Created).ok_or_else(|| corrupt("a clock that stands before 1970"))
            }
            (Some(expected), Value::Int(_)) => Ok(Self::Updated(after(expected)?)),
            (_, Value::BulkString(value)) => Ok(Self::Lost(Some(value))),
            (_, Value::Nil) => Ok(Self::Lost(None)),
            // Something foreign, in a batch.
            (_, Value::Array(_)) => Err(foreign()),
            (_, other) => Err(corrupt(&format!("the answer {other:?}"))),
        }
    }
}

/// When the server issued this fence to a new record.
pub(super) fn issued_at(fence: Fence) -> Timestamp {
    Timestamp::from_millis(fence.get() / 1_000)
}

/// What `TIME` tells, as a moment.
pub(super) fn server_time(seconds: u64, micros: u64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1_000).saturating_add(micros / 1_000))
}

/// The record that stands under this key.
pub(super) fn read(key: &Key, value: &[u8]) -> Result<Stored, StoreError> {
    let Some((fence, bytes)) = value.split_at_checked(FENCE_DIGITS) else {
        return Err(corrupt("a record without a fence"));
    };
    let record = wire::decode_record(key, bytes).map_err(unreadable)?;
    Ok(Stored { fence: read_fence(fence)?, record })
}

fn read_fence(digits: &[u8]) -> Result<Fence, StoreError> {
    let number = std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok());
    number.and_then(Fence::new).ok_or_else(|| corrupt("a fence that is no number"))
}
