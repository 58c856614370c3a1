//! The loop around a store: decide, swap, decide again on what is really there.
//!
//! 1. A fresh call costs one round trip, a replay one, a takeover two.
//! 2. A swap whose reply was lost is repeated. Finding a stored record equal to one's own means that it had
//!    landed: the holder is random per claim.
//! 3. A claim that cannot be made is refused: nothing runs unless somebody asked for that by name.
//! 4. What a holder writes is repeated with growing pauses until its lease is over, and then reported as
//!    unconfirmed: neither success nor failure. That holds for refusals, too: a failover shows a read-only server for a
//!    while, and a full disk is made room on. A claim that is refused is told at once.
//! 5. A result that is larger than what the store takes is left out: what took effect is completed all the same. So is
//!    one that the store refused to the last, for a smaller record may still find room.
//!
//! It does not decide: that is [`semel_core::call`]'s.

use crate::{
    error::{Error, ErrorKind},
    observe::{Observed, Swapped, Swapping},
    once::Defaults,
    race::{Within, boxed, within},
    seal::Seal,
    wait::Waits,
};
use semel_core::{
    call::{self, Call, Decision, Entry, Terms},
    fence::Fence,
    key::Key,
    record::{Body, NotKept, Record, State, Stored},
    sabotage,
    sha256::sha256,
    store::{StoreError, StoreErrorKind, Swap},
    time::{Clock, Timestamp},
};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// Most swaps that one claim tries before it gives up on a key that keeps changing hands.
const SWAPS_MAX: usize = 8;
/// Most times that one swap of a claim is sent.
const SENDS_MAX: usize = 4;
/// First pause between two tries of a holder's write; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause between two tries of a holder's write.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long before its end a holder's write that is still refused is tried without its result.
const BARE_BEFORE: Duration = Duration::from_secs(1);

/// What all clones of a `Once` share.
pub(crate) struct Driver {
    pub(crate) store: Observed,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) defaults: Defaults,
    pub(crate) seal: Seal,
    pub(crate) waits: Waits,
}

/// What became of a claim.
pub(crate) enum Claim {
    /// It was won: what was written is where its caller wanted it.
    Won(Won),
    /// The call is finished; found at this moment.
    Replay { stored: Box<Stored>, now: Timestamp },
    /// Another holder has it.
    Busy { until: Timestamp },
    /// It was made with another payload.
    Mismatch,
}

/// A claim that was won.
#[derive(Clone, Copy)]
pub(crate) struct Won {
    pub(crate) fence: Fence,
    pub(crate) entry: Entry,
    /// When the lease began, on the monotonic clock: before the claim was sent.
    pub(crate) at: Duration,
}

/// What a holder writes.
pub(crate) struct Write<'a> {
    pub(crate) key: &'a Key,
    pub(crate) expected: Option<Fence>,
    pub(crate) record: &'a Record,
    /// An earlier write of the same holder whose reply was lost: if it is found, it is ours.
    pub(crate) in_doubt: Option<&'a Record>,
    /// When to give up, on the monotonic clock.
    pub(crate) until: Duration,
}

/// What became of a holder's write.
pub(crate) enum Written {
    /// It stands, under this fence.
    Won(Fence),
    /// Somebody else's stands there.
    Superseded,
    /// Nobody could tell, for as long as we had.
    Unconfirmed(StoreError),
}

impl Driver {
    /// Claims the key for this call at this moment, told by both clocks. Also tells when the answer was there: to read a
    /// clock takes longer than most of what is done in between. What is written stays in `written`: a record is large, and
    /// would be moved from each future to the next.
    // What happens rarely is boxed.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` has room for its arguments twice")]
    pub(crate) fn claim<'a>(
        &'a self,
        key: &'a Key,
        call: &'a Call,
        terms: &'a Terms,
        (now, since): (Timestamp, Duration),
        written: &'a mut Option<Record>,
    ) -> impl Future<Output = Result<(Claim, Duration), Error>> + Send + use<'a> {
        async move {
            let Decision::Run { expected, record, entry } = call::begin(now, None, call, terms) else {
                unreachable!("where nothing was found, the call is run")
            };
            let record = written.insert(record);
            let (swapped, at) = self.swap(key, expected, record, since, since + terms.lease / 3).await;
            // Nothing of this is kept while it goes on elsewhere.
            let going_on = match swapped {
                Ok(Swapped::Won(fence)) => {
                    return Ok((Claim::Won(Won { fence, entry, at: since }), at));
                }
                Ok(Swapped::Lost(found)) => {
                    let now = self.clock.now();
                    match call::begin(now, found.as_deref(), call, terms) {
                        Decision::Replay(_) => return Ok((replayed(found, now), at)),
                        Decision::Busy { until } => return Ok((Claim::Busy { until }, at)),
                        Decision::Mismatch => return Ok((Claim::Mismatch, at)),
                        Decision::Run { .. } | Decision::Report { .. } => {
                            boxed(self.claim_over(key, call, terms, at, found, written))
                        }
                    }
                }
                Err(error) => return Err(Error::store(Some(key.clone()), *error)),
            };
            going_on.await
        }
    }

    /// As [`Driver::claim`], by whoever knows what stands under the key.
    pub(crate) async fn claim_over(
        &self,
        key: &Key,
        call: &Call,
        terms: &Terms,
        since: Duration,
        mut found: Option<Box<Stored>>,
        written: &mut Option<Record>,
    ) -> Result<(Claim, Duration), Error> {
        let until = since + terms.lease / 3;
        let mut at = since;
        for _ in 1..SWAPS_MAX {
            let now = self.clock.now();
            let (expected, record, entry) = match call::begin(now, found.as_deref(), call, terms) {
                Decision::Run { expected, record, entry } => (expected, record, Some(entry)),
                Decision::Report { expected, record } => (Some(expected), record, None),
                Decision::Replay(_) => return Ok((replayed(found, now), at)),
                Decision::Busy { until } => return Ok((Claim::Busy { until }, at)),
                Decision::Mismatch => return Ok((Claim::Mismatch, at)),
            };
            let record = written.insert(record);
            let (swapped, replied_at) = self.swap(key, expected, record, at, until).await;
            match (swapped.map_err(|error| Error::store(Some(key.clone()), *error))?, entry) {
                (Swapped::Won(fence), Some(entry)) => {
                    return Ok((Claim::Won(Won { fence, entry, at }), replied_at));
                }
                (Swapped::Won(fence), None) => {
                    let stored = Box::new(Stored { fence, record: record.clone() });
                    return Ok((Claim::Replay { stored, now }, replied_at));
                }
                (Swapped::Lost(current), _) => (found, at) = (current, replied_at),
            }
        }
        Err(Error::new(ErrorKind::Contended, key.clone()))
    }

    /// As [`Driver::swap`], with an error that a caller can be told.
    pub(crate) async fn swap_or_refuse(
        &self,
        key: &Key,
        expected: Option<Fence>,
        record: &Record,
        until: Duration,
    ) -> Result<Swap, Error> {
        let (swapped, _) = self.swap(key, expected, record, self.clock.monotonic(), until).await;
        swapped.map(Swap::from).map_err(|error| Error::store(Some(key.clone()), *error))
    }

    /// Swaps, again where the reply was lost: a stored record equal to ours is ours. Also tells when the reply was there.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` has room for its arguments twice")]
    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
        mut at: Duration,
        until: Duration,
    ) -> impl Future<Output = (Result<Swapped, Box<StoreError>>, Duration)> + Send + use<'a> {
        async move {
            let mut sends = 0;
            loop {
                sends += 1;
                let (result, replied_at) = self.send(key, expected, record, at, until).await;
                at = replied_at;
                match result {
                    Ok(Swapped::Lost(Some(it))) if is_own(&it.record, record) => {
                        return (Ok(Swapped::Won(it.fence)), at);
                    }
                    Err(error) if error.is_transient() && sends < SENDS_MAX && at < until => {}
                    result => return (result, at),
                }
            }
        }
    }

    /// What stands under the key; asked again where no answer came.
    pub(crate) async fn look(&self, key: &Key, until: Duration) -> Result<Option<Stored>, Error> {
        let mut sends = 0;
        loop {
            sends += 1;
            match within(&*self.clock, until, self.store.load(key)).await.unwrap_or_else(|| Err(silent())) {
                Ok(found) => return Ok(found),
                Err(error) if error.is_transient() && sends < SENDS_MAX && !self.is_over(until) => {}
                Err(error) => return Err(Error::store(Some(key.clone()), error)),
            }
        }
    }

    /// Writes what a holder has to say, and does not take silence for an answer until its time is over.
    pub(crate) async fn write(&self, write: Write<'_>) -> Written {
        self.write_since(self.clock.monotonic(), write).await.0
    }

    /// As [`Driver::write`], which is begun at `at`, on the monotonic clock; tells when it was over.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` has room for its arguments twice")]
    pub(crate) fn write_since<'a>(
        &'a self,
        at: Duration,
        write: Write<'a>,
    ) -> impl Future<Output = (Written, Duration)> + Send + use<'a> {
        async move {
            let sent = self.send(write.key, write.expected, write.record, at, write.until).await;
            let going_on = match sent {
                (Ok(Swapped::Won(fence)), at) => return (Written::Won(fence), at),
                (result, at) => boxed(self.write_on(result, at, write)),
            };
            going_on.await
        }
    }

    /// Goes on with a write that was not simply won.
    async fn write_on(
        &self,
        mut result: Result<Swapped, Box<StoreError>>,
        mut at: Duration,
        write: Write<'_>,
    ) -> (Written, Duration) {
        let Write { key, mut expected, record, in_doubt, until } = write;
        let mut pause = PAUSE_MIN;
        let mut bare = None;
        loop {
            let sent = bare.as_ref().unwrap_or(record);
            match result {
                Ok(Swapped::Won(fence)) => return (Written::Won(fence), at),
                Ok(Swapped::Lost(Some(it))) if is_own(&it.record, sent) => {
                    return (Written::Won(it.fence), at);
                }
                Ok(Swapped::Lost(Some(it))) if in_doubt == Some(&it.record) => expected = Some(it.fence),
                Ok(Swapped::Lost(_)) => return (Written::Superseded, at),
                Err(error) if is_left_out(&error, until.saturating_sub(at)) && has_body(sent) => {
                    bare = Some(without_body(sent));
                }
                Err(error) if is_pointless(&error, at, until) => return (Written::Unconfirmed(*error), at),
                Err(_) => {
                    self.clock.sleep(pause.min(until.saturating_sub(at))).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    at = self.clock.monotonic();
                }
            }
            (result, at) = self.send(key, expected, bare.as_ref().unwrap_or(record), at, until).await;
        }
    }

    fn is_over(&self, until: Duration) -> bool {
        self.clock.monotonic() >= until
    }

    fn send<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
        at: Duration,
        until: Duration,
    ) -> Sending<'a> {
        let (clock, swap) = (&*self.clock, self.store.swap_since(at, key, expected, record));
        Sending { clock, swap: within(clock, until, swap) }
    }
}

/// A swap that was sent. Gives the reply, and when it was there.
struct Sending<'a> {
    clock: &'a dyn Clock,
    swap: Within<'a, Swapping<'a>>,
}

impl Future for Sending<'_> {
    type Output = (Result<Swapped, Box<StoreError>>, Duration);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let replied = ready!(Pin::new(&mut self.swap).poll(context));
        Poll::Ready(replied.unwrap_or_else(|| (Err(Box::new(silent())), self.clock.monotonic())))
    }
}

/// What was found is what came of the call.
fn replayed(found: Option<Box<Stored>>, now: Timestamp) -> Claim {
    Claim::Replay { stored: found.expect("what is replayed was found"), now }
}

/// Whether there is nothing to be had from trying again.
fn is_pointless(error: &StoreError, at: Duration, until: Duration) -> bool {
    let may_pass = match error.kind() {
        StoreErrorKind::Refused => !sabotage::is_on("refused_holder_gives_up"),
        _ => error.is_transient(),
    };
    !may_pass || at >= until || sabotage::is_on("lost_reply_is_failure")
}

/// Whether a result is to be left out, so that its record finds room at last.
fn is_left_out(error: &StoreError, left: Duration) -> bool {
    match error.kind() {
        StoreErrorKind::TooLarge => true,
        StoreErrorKind::Refused => left <= BARE_BEFORE,
        _ => false,
    }
}

fn silent() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "any", "did not answer while the lease lasted")
}

fn has_body(record: &Record) -> bool {
    matches!(record.state, State::Completed(Body::Kept { .. }))
        && !sabotage::is_on("refused_result_is_unconfirmed")
}

/// The same outcome, without a result that is too large for the store.
fn without_body(record: &Record) -> Record {
    let State::Completed(Body::Kept { bytes, .. }) = &record.state else { return record.clone() };
    let (size, digest) = (bytes.len() as u64, sha256(bytes));
    let state = State::Completed(Body::NotKept { cause: NotKept::TooLarge, size, digest });
    Record { state, ..record.clone() }
}

/// Whether what is stored is what we sent.
fn is_own(stored: &Record, sent: &Record) -> bool {
    stored == sent && !sabotage::is_on("own_record_not_recognised")
}
