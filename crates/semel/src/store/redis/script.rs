//! The one script, and what it is told and says.
//!
//! 1. It swaps many records, each for itself: it decides nothing but whether the stored fence is the expected one.
//! 2. It is sent by its hash; a server that does not know it (a fresh one, one that was restarted, another node
//!    of the cluster) is sent it whole, and then knows it.
//! 3. A new record's fence is the server's time, every other one's the next number, which that time has passed by
//!    then: so no command but `TIME`, once per script, and no arithmetic on doubles is needed.
//! 4. A record that was written stays for a margin, even if it has expired already: whoever held its fence is
//!    refused by what stands there, and the time has moved past the fence before the record is gone.
//! 5. What was written is not mentioned in the answer: it names what was lost, and tells the time.

use super::error::{corrupt, foreign, unreadable};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use semel_core::{
    fence::Fence,
    key::{Identity, Key},
    record::{Record, Stored},
    sabotage::is_on,
    store::{StoreError, Swap},
    time::Timestamp,
    wire,
};
use std::{iter::Peekable, time::Duration, vec::IntoIter};

/// How long past its expiry a record is kept: so far may the server's clock be set back without a fence being
/// issued again.
pub const EXPIRY_MARGIN: Duration = Duration::from_mins(10);

/// What is to be remembered for longer than this is kept for ever.
const LIFE_MAX: Duration = Duration::from_hours(24 * 365 * 100);
/// Room for a record with a small result.
const VALUE_BYTES: usize = 256;
/// Room for what stands around a swap's name and value in a command.
const AROUND_BYTES: usize = 32;

/// Digits of a fence in front of a record's bytes: microseconds, until the year 2286.
const FENCE_DIGITS: usize = 16;
/// The highest fence that stays whole in Lua, whose numbers are doubles; the clock reaches it in the year 2255.
const FENCE_MAX: u64 = (1 << 53) - 1;

/// KEYS: the names of new records that stay, then of others. ARGV: how many are new and stay; the bytes of each of
/// these; then for each other one the expected fence, or nothing; its bytes, with the next fence in front if one was
/// expected; and in how many milliseconds it may go, or nothing. Gives the fence of new records; then the number of
/// each swap that was lost, and what stands there, or nothing, or a list with an error.
pub(super) const SWAPS: &str = "\
local call, find, keys, args = redis.call, string.find, KEYS, ARGV
local new = tonumber(args[1])
local time = call('TIME')
local fence = string.format('%010d%06d', time[1], time[2])
local said = {tonumber(fence)}
local function lost(i, stored)
  if not stored then
    stored = redis.pcall('GET', keys[i])
    if type(stored) == 'table' then stored = {stored.err} end
  end
  said[#said + 1] = i
  said[#said + 1] = stored
end
if new > 0 then
  local values = {}
  for i = 1, new do
    values[2 * i - 1] = keys[i]
    values[2 * i] = fence .. args[i + 1]
  end
  if call('MSETNX', unpack(values)) == 0 then
    local found = call('MGET', unpack(keys, 1, new))
    for i = 1, new do
      if found[i] or not call('SET', keys[i], values[2 * i], 'NX') then lost(i, found[i]) end
    end
  end
end
if new < #keys then
  local found = call('MGET', unpack(keys, new + 1))
  local at = new + 2
  for i = new + 1, #keys do
    local stored, expected, value, life = found[i - new], args[at], args[at + 1], args[at + 2]
    if expected == '' then
      if stored or not call('SET', keys[i], fence .. value, 'NX', 'PX', life) then lost(i, stored) end
    elseif not stored or find(stored, expected, 1, true) ~= 1 then lost(i, stored)
    elseif life == '' then call('SET', keys[i], value)
    else call('SET', keys[i], value, 'PX', life) end
    at = at + 3
  end
end
return said";

/// One swap.
pub(super) struct Request {
    identity: Identity,
    name: Vec<u8>,
    expected: Option<Fence>,
    /// The fence it will have, if that is known: a new record's is the server's.
    next: Option<Fence>,
    /// What to write, with its fence in front if that is known.
    value: Vec<u8>,
    /// When the server may remove it, from now; `None` for never.
    life: Option<Duration>,
}

/// What became of one swap.
pub(super) enum Reply {
    /// Written, under this fence.
    Won(Fence),
    /// Not written, because this stands there.
    Lost(Option<Vec<u8>>),
    /// Not written, because something stands there that is no record.
    Foreign,
}

impl Request {
    pub(super) fn new(
        name: Vec<u8>,
        key: &Key,
        expected: Option<Fence>,
        record: &Record,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let next = expected.map(after).transpose()?;
        let mut value = Vec::with_capacity(VALUE_BYTES);
        if let Some(fence) = next {
            value.extend_from_slice(&digits(fence));
        }
        wire::encode_into(&mut value, key, record);
        let left = record.expires_at.since(now);
        let life = (left < LIFE_MAX).then(|| left + EXPIRY_MARGIN);
        Ok(Self { identity: *key.identity(), name, expected, next, value, life })
    }

    /// Two requests of one key have the same number; it takes 2^32 keys at once until two others do.
    pub(super) fn number(&self) -> u64 {
        let first = self.identity.as_bytes().first_chunk().expect("an identity has 32 bytes");
        u64::from_le_bytes(*first)
    }

    /// How much it adds to a command.
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + AROUND_BYTES
    }

    /// Whether it makes a record that stays.
    pub(super) fn is_new(&self) -> bool {
        self.expected.is_none() && self.life.is_none()
    }

    fn add_to(&self, command: &mut Cmd) {
        if self.is_new() {
            command.arg(&self.value[..]);
            return;
        }
        match self.expected {
            Some(fence) => command.arg(&digits(fence)),
            None => command.arg(""),
        };
        command.arg(&self.value[..]);
        match self.life {
            Some(life) => command.arg(life.as_millis() as u64),
            None => command.arg(""),
        };
    }
}

/// The command that swaps these, of which those that are new come first. The script is given by name and hash, or
/// whole.
pub(super) fn command<'a>(
    (name, script): (&str, &str),
    requests: impl ExactSizeIterator<Item = &'a Request> + Clone,
) -> Cmd {
    let bytes = requests.clone().map(Request::bytes).sum::<usize>() + script.len() + AROUND_BYTES;
    let mut command = Cmd::with_capacity(4 + 4 * requests.len(), bytes);
    command.arg(name).arg(script).arg(requests.len());
    for it in requests.clone() {
        command.arg(&it.name[..]);
    }
    command.arg(requests.clone().filter(|it| it.is_new()).count());
    requests.for_each(|it| it.add_to(&mut command));
    command
}

/// The fence after this one. It is not later than the server's time, which has moved on since: so it is never issued
/// again, not even after the record is gone.
fn after(fence: Fence) -> Result<Fence, StoreError> {
    let next = Fence::new(fence.get() + 1).filter(|it| it.get() <= FENCE_MAX);
    next.ok_or_else(|| corrupt("a fence from the far future, after which there is none"))
}

/// As `format!` would, in a tenth of the time.
fn digits(fence: Fence) -> [u8; FENCE_DIGITS] {
    let (mut digits, mut left) = ([0; FENCE_DIGITS], fence.get());
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    digits
}

/// What the script said.
pub(super) struct Said {
    /// The fence of new records.
    fence: Fence,
    /// What was lost, by its place in the command, in order.
    lost: Peekable<IntoIter<(usize, Value)>>,
}

impl Said {
    /// Reads what was said to so many swaps. Whatever is not mentioned was written, so nothing may be misread.
    pub(super) fn read(said: Value, swaps: usize) -> RedisResult<Self> {
        let Value::Array(said) = said else { return Err(unexpected()) };
        let mut said = said.into_iter();
        let Some(Value::Int(fence)) = said.next() else { return Err(unexpected()) };
        let fence = u64::try_from(fence).ok().and_then(Fence::new).ok_or_else(unexpected)?;
        let mut lost: Vec<(usize, Value)> = Vec::with_capacity(said.len() / 2);
        while let Some(number) = said.next() {
            let (Value::Int(number), Some(stored)) = (number, said.next()) else { return Err(unexpected()) };
            let place = usize::try_from(number - 1).map_err(|_| unexpected())?;
            let is_next = place < swaps && lost.last().is_none_or(|(last, _)| *last < place);
            if !is_next && !is_on("redis_answer_in_any_order") {
                return Err(unexpected());
            }
            lost.push((place, stored));
        }
        Ok(Self { fence, lost: lost.into_iter().peekable() })
    }

    /// The server's time.
    pub(super) fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.fence.get() / 1_000)
    }

    /// What became of the request at this place of the command. They must be asked for in order.
    pub(super) fn about(&mut self, place: usize, request: &Request) -> RedisResult<Reply> {
        match self.lost.next_if(|(it, _)| *it == place) {
            Some((_, Value::BulkString(value))) => Ok(Reply::Lost(Some(value))),
            Some((_, Value::Nil)) => Ok(Reply::Lost(None)),
            Some((_, Value::Array(_))) => Ok(Reply::Foreign),
            Some(_) => Err(unexpected()),
            None => Ok(Reply::Won(request.next.unwrap_or(self.fence))),
        }
    }
}

fn unexpected() -> RedisError {
    (ErrorKind::UnexpectedReturnType, "the script was answered with something else").into()
}

impl Reply {
    pub(super) fn into_swap(self, key: &Key) -> Result<Swap, StoreError> {
        match self {
            Self::Won(fence) => Ok(Swap::Won(fence)),
            Self::Lost(None) => Ok(Swap::Lost(None)),
            Self::Lost(Some(value)) => Ok(Swap::Lost(Some(read(key, &value)?))),
            Self::Foreign => Err(foreign()),
        }
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

fn read_fence(digits: &[u8]) -> Result<Fence, StoreError> {
    let number = std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok());
    number.and_then(Fence::new).ok_or_else(|| corrupt("a fence that is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::record::State;

    const NOW: u64 = 1_800_000_000_000;

    fn request(expected: Option<Fence>) -> Request {
        let key = Key::new("script", 1).expect("a number is an id");
        let now = Timestamp::from_millis(NOW);
        let record = Record {
            fingerprint: semel_core::fingerprint::Fingerprint::EMPTY,
            state: State::Pending { due_at: now, error: None },
            attempts: 1,
            created_at: now,
            updated_at: now,
            expires_at: Timestamp::NEVER,
        };
        Request::new(b"name".to_vec(), &key, expected, &record, now).expect("there is a next fence")
    }

    fn said(more: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(NOW.cast_signed() * 1_000)], more].concat())
    }

    #[test]
    fn what_is_not_mentioned_was_won_under_the_next_fence_or_the_servers_time() {
        let stored = Value::BulkString(b"theirs".to_vec());
        let answer = said(vec![Value::Int(2), stored, Value::Int(4), Value::Nil]);
        let mut answer = Said::read(answer, 4).expect("this is how the script speaks");
        assert_eq!(answer.time(), Timestamp::from_millis(NOW));
        let (new, other) = (request(None), request(Fence::new(6)));
        assert!(matches!(answer.about(0, &new), Ok(Reply::Won(fence)) if fence.get() == NOW * 1_000));
        assert!(matches!(answer.about(1, &new), Ok(Reply::Lost(Some(stored))) if stored == b"theirs"));
        assert!(matches!(answer.about(2, &other), Ok(Reply::Won(fence)) if fence.get() == 7));
        assert!(matches!(answer.about(3, &other), Ok(Reply::Lost(None))));
    }

    #[test]
    fn an_answer_that_could_be_misread_as_a_success_is_none() {
        for answer in [
            Value::Nil,
            Value::Int(1),
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Int(0)]),
            Value::Array(vec![Value::Int(-1)]),
            said(vec![Value::Int(1)]),
            said(vec![Value::Nil, Value::Int(1)]),
            said(vec![Value::Int(0), Value::Nil]),
            said(vec![Value::Int(-7), Value::Nil]),
            said(vec![Value::Int(3), Value::Nil]),
            said(vec![Value::Int(2), Value::Nil, Value::Int(1), Value::Nil]),
            said(vec![Value::Int(2), Value::Nil, Value::Int(2), Value::Nil]),
        ] {
            assert!(Said::read(answer.clone(), 2).is_err(), "{answer:?}");
        }
    }

    #[test]
    fn a_fence_has_sixteen_digits_and_ends_where_lua_would_round_it() {
        for number in [1, 9, 10, 1_800_000_000_000_000, FENCE_MAX] {
            let fence = Fence::new(number).expect("it is not 0");
            assert_eq!(digits(fence), format!("{number:016}").as_bytes());
            assert_eq!(read_fence(&digits(fence)).expect("digits"), fence);
        }
        assert!(after(Fence::new(FENCE_MAX - 1).expect("it is not 0")).is_ok());
        assert!(after(Fence::new(FENCE_MAX).expect("it is not 0")).is_err());
    }
}
