//! Who goes with which batch. Decisions only.
//!
//! 1. Whoever comes first lets others come along for one turn of the scheduler.
//! 2. While [`UNDER_WAY_MAX`] batches are under way, whoever comes gathers until one of them is back: so nobody waits
//!    for more than a round trip beyond their own. Two, because while the server works on one, we work on the other.
//! 3. A batch that is full leaves at once, whatever is under way.
//! 4. A batch holds a key once. Whoever wants one that is in it already goes with the next, which leaves with it.
//!
//! It does not send: that is [`super::batch`]'s.

use super::script::{Reply, Request};
use redis::RedisResult;
use semel_core::sabotage::is_on;
use std::collections::HashSet;
use tokio::sync::oneshot;

/// Most swaps in a batch: it holds up everybody else's commands for an eighth of a millisecond.
const SWAPS_MAX: usize = 32;
/// Most bytes in a batch, unless a single record is larger.
const BYTES_MAX: usize = 1024 * 1024;
/// While so many batches are under way, one that is not full waits for the first of them.
const UNDER_WAY_MAX: usize = 2;

/// A swap, and where to tell what became of it.
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<RedisResult<Reply>>,
}

/// Swaps that have not been sent.
#[derive(Default)]
pub(super) struct Gathering {
    waiting: Vec<Waiting>,
    /// Whether somebody will look after them when the scheduler has had its turn.
    is_looked_after: bool,
    /// How many batches were sent and are not back.
    under_way: usize,
}

/// What whoever has come is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send them: a batch is full.
    Leave,
    /// Look after them when the scheduler has had its turn.
    LookAfter,
    /// Nothing: somebody else will.
    Wait,
}

impl Gathering {
    /// Somebody has come.
    pub(super) fn arrive(&mut self, it: Waiting) -> Next {
        self.waiting.push(it);
        if self.waiting.len() >= SWAPS_MAX {
            return Next::Leave;
        }
        if self.may_leave() && self.look_after() { Next::LookAfter } else { Next::Wait }
    }

    /// Takes the next batch, which is then under way; `None` if nobody waits.
    pub(super) fn leave(&mut self) -> Option<Vec<Waiting>> {
        if self.waiting.is_empty() {
            return None;
        }
        self.under_way += 1;
        Some(take(&mut self.waiting))
    }

    /// A batch is back, or lost.
    pub(super) fn batch_is_over(&mut self) {
        if !is_on("redis_lost_batch_is_awaited") {
            self.under_way -= 1;
        }
    }

    /// Whether whoever asks is to look after those who wait, because nobody does.
    pub(super) fn look_after(&mut self) -> bool {
        !std::mem::replace(&mut self.is_looked_after, true)
    }

    /// The scheduler has had its turn.
    pub(super) fn turn_is_over(&mut self) {
        self.is_looked_after = false;
    }

    /// Whether those who wait may be sent, although they fill no batch.
    pub(super) fn may_leave(&self) -> bool {
        self.under_way < UNDER_WAY_MAX || is_on("redis_batches_without_end")
    }
}

/// Takes as many as fit, and no key twice.
fn take(waiting: &mut Vec<Waiting>) -> Vec<Waiting> {
    let mut numbers = HashSet::with_capacity(SWAPS_MAX);
    let mut bytes = 0;
    let is_taken = |it: &mut Waiting| {
        let more = it.request.bytes();
        let fits = numbers.len() < SWAPS_MAX && (bytes == 0 || bytes + more <= BYTES_MAX);
        let is_taken = fits && (numbers.insert(it.request.number()) || is_on("redis_key_twice_in_a_batch"));
        bytes += if is_taken { more } else { 0 };
        is_taken
    };
    let mut batch = Vec::with_capacity(waiting.len().min(SWAPS_MAX));
    batch.extend(waiting.extract_if(.., is_taken));
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{
        key::Key,
        record::{Body, Record, State},
        time::Timestamp,
    };

    fn waiting(id: usize, body: usize) -> Waiting {
        let key = Key::new("gathering", id).expect("a number is an id");
        let now = Timestamp::from_millis(1_800_000_000_000);
        let record = Record {
            fingerprint: semel_core::fingerprint::Fingerprint::EMPTY,
            state: State::Completed(Body::Kept { bytes: vec![0; body], until: Timestamp::NEVER }),
            attempts: 1,
            created_at: now,
            updated_at: now,
            expires_at: Timestamp::NEVER,
        };
        let request = Request::new(b"name".to_vec(), &key, None, &record, now).expect("no fence is needed");
        Waiting { request, reply: oneshot::channel().0 }
    }

    /// So many have come, and what they were told.
    fn arrive(gathering: &mut Gathering, ids: impl IntoIterator<Item = usize>) -> Vec<Next> {
        ids.into_iter().map(|id| gathering.arrive(waiting(id, 0))).collect()
    }

    /// All are sent: the sizes of their batches.
    fn sizes(gathering: &mut Gathering) -> Vec<usize> {
        std::iter::from_fn(|| gathering.leave()).map(|it| it.len()).collect()
    }

    /// The scheduler has had its turn: the sizes of the batches that leave.
    fn turn(gathering: &mut Gathering) -> Vec<usize> {
        gathering.turn_is_over();
        if gathering.may_leave() { sizes(gathering) } else { Vec::new() }
    }

    #[test]
    fn the_first_looks_after_all_who_come_in_the_same_turn() {
        let mut gathering = Gathering::default();
        assert_eq!(arrive(&mut gathering, 0..3), [Next::LookAfter, Next::Wait, Next::Wait]);
        assert_eq!(turn(&mut gathering), [3]);
    }

    #[test]
    fn who_comes_while_enough_is_under_way_goes_with_the_first_that_is_back() {
        let mut gathering = Gathering::default();
        for id in 0..UNDER_WAY_MAX {
            assert_eq!(arrive(&mut gathering, [id]), [Next::LookAfter], "{id} are under way");
            assert_eq!(turn(&mut gathering), [1]);
        }
        assert_eq!(arrive(&mut gathering, 10..13), [Next::Wait, Next::Wait, Next::Wait]);
        gathering.batch_is_over();
        assert!(gathering.look_after(), "nobody else does");
        assert_eq!(turn(&mut gathering), [3]);
    }

    #[test]
    fn who_is_back_leaves_those_alone_who_are_looked_after() {
        let mut gathering = Gathering::default();
        arrive(&mut gathering, [1]);
        assert_eq!(turn(&mut gathering), [1]);
        assert_eq!(arrive(&mut gathering, [2]), [Next::LookAfter]);
        gathering.batch_is_over();
        assert!(!gathering.look_after());
        assert_eq!(turn(&mut gathering), [1]);
    }

    #[test]
    fn a_turn_that_ends_while_full_batches_are_under_way_sends_nobody() {
        let mut gathering = Gathering::default();
        for _ in 0..UNDER_WAY_MAX {
            arrive(&mut gathering, 0..SWAPS_MAX);
            assert_eq!(sizes(&mut gathering), [SWAPS_MAX]);
        }
        arrive(&mut gathering, [1]);
        assert_eq!(turn(&mut gathering), [0; 0]);
    }

    #[test]
    fn a_full_batch_leaves_at_once_whatever_is_under_way() {
        let mut gathering = Gathering::default();
        for round in 0..3 * UNDER_WAY_MAX {
            let told = arrive(&mut gathering, 0..SWAPS_MAX);
            assert_eq!(told.last(), Some(&Next::Leave), "{round} are under way");
            assert!(!told[..SWAPS_MAX - 1].contains(&Next::Leave));
            assert_eq!(sizes(&mut gathering), [SWAPS_MAX]);
        }
    }

    #[test]
    fn a_key_is_in_a_batch_once_and_nobody_is_left_behind() {
        let mut gathering = Gathering::default();
        arrive(&mut gathering, [1, 2, 1, 3, 1, 2]);
        assert_eq!(sizes(&mut gathering), [3, 2, 1]);
        assert!(gathering.leave().is_none());
    }

    #[test]
    fn a_batch_has_no_more_bytes_than_it_may_unless_one_record_has() {
        let (third, more) = (BYTES_MAX / 3, BYTES_MAX + 1);
        for (bodies, expected) in [
            (vec![third, third, third], vec![2, 1]),
            (vec![more, 0, more], vec![1, 1, 1]),
            (vec![0, more, 0], vec![2, 1]),
        ] {
            let mut gathering = Gathering::default();
            for (id, body) in bodies.iter().enumerate() {
                gathering.arrive(waiting(id, *body));
            }
            assert_eq!(sizes(&mut gathering), expected, "{bodies:?}");
        }
    }
}
