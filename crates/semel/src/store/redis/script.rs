//! The one script, and what it is told and says.
//!
//! 1. It decides nothing but whether the stored fence is the expected one.
//! 2. It is sent by its hash; a server that does not know it (a fresh one, one that was restarted, another node
//!    of the cluster) is sent it whole, and then knows it.
//! 3. A record that was written stays for a margin, even if it has expired already: whoever held its fence is
//!    refused by what stands there, and the time has moved past the fence before the record is gone.

use super::{
    connection::Connection,
    error::{corrupt, unreadable},
};
use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, ServerErrorKind, Value, cmd};
use semel_core::{fence::Fence, key::Key, record::Stored, store::StoreError, time::Timestamp, wire};
use std::time::Duration;

/// How long past its expiry a record is kept: so far may the server's clock be set back without a fence being
/// issued again.
pub const EXPIRY_MARGIN: Duration = Duration::from_mins(10);

/// What expires later than this (the year 9999) is kept for ever.
const EXPIRES_AT_MAX: Timestamp = Timestamp::from_millis(253_402_300_800_000);

/// Digits of a fence in front of a record's bytes.
const FENCE_DIGITS: usize = 20;

/// KEYS: the record's name. ARGV: the expected fence in twenty digits or nothing; the record's bytes; when they
/// expire in ms or nothing; the margin in ms. Gives whether it was written, the server's time in seconds and
/// microseconds, and the new fence or what stands there.
///
/// Numbers are doubles in Lua: whole up to 2^53, which microseconds reach in the year 2255.
const SWAP: &str = "\
local stored = redis.call('GET', KEYS[1])
local time = redis.call('TIME')
local fence = ''
if stored then fence = string.sub(stored, 1, 20) end
if fence ~= ARGV[1] then return {0, time[1], time[2], stored} end
local now = time[1] * 1000000 + time[2]
local next = now
if stored and tonumber(fence) >= next then next = tonumber(fence) + 1 end
if next >= 9007199254740992 then return redis.error_reply('SEMELFENCE no higher fence can be given') end
next = string.format('%020.0f', next)
if ARGV[3] == '' then
  redis.call('SET', KEYS[1], next .. ARGV[2])
else
  local left = math.max(ARGV[3] - math.floor(now / 1000), 0) + ARGV[4]
  redis.call('SET', KEYS[1], next .. ARGV[2], 'PX', string.format('%.0f', left))
end
return {1, time[1], time[2], next}";

/// The script, with its hash.
pub(super) struct Swapping {
    script: redis::Script,
}

/// What the script is told.
pub(super) struct Request<'a> {
    pub(super) name: &'a str,
    pub(super) expected: Option<Fence>,
    pub(super) bytes: &'a [u8],
    pub(super) expires_at: Timestamp,
}

/// What the script says.
pub(super) struct Reply {
    pub(super) is_won: bool,
    pub(super) server_time: Timestamp,
    /// The new fence if it was won, else what stands there.
    pub(super) value: Option<Vec<u8>>,
}

impl Swapping {
    pub(super) fn new() -> Self {
        Self { script: redis::Script::new(SWAP) }
    }

    pub(super) async fn send(&self, connection: &Connection, request: &Request<'_>) -> RedisResult<Value> {
        let by_hash = command("EVALSHA", self.script.get_hash(), request);
        match connection.send(&by_hash).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                connection.send(&command("EVAL", SWAP, request)).await
            }
            result => result,
        }
    }
}

fn command(name: &str, script: &str, request: &Request<'_>) -> redis::Cmd {
    let expected = request.expected.map_or_else(String::new, |it| format!("{:0FENCE_DIGITS$}", it.get()));
    let expires_at = (request.expires_at <= EXPIRES_AT_MAX).then(|| request.expires_at.as_millis());
    let mut command = cmd(name);
    command.arg(script).arg(1).arg(request.name).arg(expected).arg(request.bytes);
    match expires_at {
        Some(millis) => command.arg(millis),
        None => command.arg(""),
    };
    command.arg(EXPIRY_MARGIN.as_millis() as u64);
    command
}

impl Reply {
    pub(super) fn read(reply: Value) -> Result<Self, RedisError> {
        let (is_won, seconds, micros, value) = FromRedisValue::from_redis_value(reply)?;
        Ok(Self { is_won, server_time: server_time(seconds, micros), value })
    }
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

pub(super) fn read_fence(digits: &[u8]) -> Result<Fence, StoreError> {
    let number = std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok());
    number.and_then(Fence::new).ok_or_else(|| corrupt("a fence that is no number"))
}
