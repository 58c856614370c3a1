//! What the tests start from: keys, records, and strategies that make any of them.

use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed},
};
use semel_core::{
    call::Resolution,
    execution::{Attempt, Due, Execution, HISTORY_ATTEMPTS_MAX, Input, Order, Origin, Phase, Repeats},
    fingerprint::Fingerprint,
    key::{Key, Part},
    record::{Body, Holder, NotKept, OnLapse, Place, Reason, Record, State},
    time::Timestamp,
};
use std::{
    hash::{BuildHasher, RandomState},
    num::NonZeroU8,
    sync::Arc,
    time::Duration,
};

/// How properties are tried: by a seed that is printed, and chosen with `PROPTEST_RNG_SEED`.
pub(crate) fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if let RngSeed::Random = config.rng_seed {
        config.rng_seed = RngSeed::Fixed(RandomState::new().hash_one(()));
    }
    println!("PROPTEST_RNG_SEED={}", config.rng_seed);
    config
}

/// Shorthand for a moment.
pub(crate) const fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A key that is always the same.
pub(crate) fn a_key() -> Key {
    Key::new("process-order", "evt-0123456789ab").expect("a valid key")
}

/// A time of day for fixtures and tables: 2027-01-15T08:00:00Z.
pub(crate) const NOON: Timestamp = at(1_800_000_000_000);

pub(crate) fn a_moment() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        8 => (0..4_000_000_000_000_u64).prop_map(at),
        1 => any::<u64>().prop_map(at),
        1 => Just(Timestamp::NEVER),
        1 => Just(Timestamp::EPOCH),
    ]
}

pub(crate) fn a_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        Just(Part::Null),
        // Few letters and every delimiter that anybody might join with: collisions, if there are any.
        "[ab/:#|,.]{1,4}".prop_map(Part::Text),
        "\\PC{0,12}[a-z]".prop_map(Part::Text),
        any::<i8>().prop_map(|it| Part::Integer(it.into())),
        any::<i128>().prop_map(Part::Integer),
        any::<bool>().prop_map(Part::Boolean),
        proptest::collection::vec(any::<u8>(), 1..6).prop_map(Part::Bytes),
    ]
}

/// Parts of which at least one is not null.
pub(crate) fn some_parts() -> impl Strategy<Value = Vec<Part>> {
    proptest::collection::vec(a_part(), 1..5)
        .prop_filter("at least one that is not null", |it| it.iter().any(|part| *part != Part::Null))
}

pub(crate) fn any_key() -> impl Strategy<Value = Key> {
    (some_parts(), some_parts(), proptest::option::of(some_parts())).prop_map(|(scope, id, effect)| {
        let key = Key::new(scope, id).expect("valid parts");
        match effect {
            Some(path) => key.effect(path).expect("valid parts"),
            None => key,
        }
    })
}

pub(crate) fn any_fingerprint() -> impl Strategy<Value = Fingerprint> {
    let hashed = any::<(NonZeroU8, [u8; 32])>();
    prop_oneof![
        hashed.prop_map(|(version, hash)| Fingerprint::from_parts(version, hash)),
        Just(Fingerprint::EMPTY),
    ]
}

pub(crate) fn any_reason() -> impl Strategy<Value = Reason> {
    proptest::sample::select(REASONS.to_vec())
}

pub(crate) const REASONS: [Reason; 7] = [
    Reason::Fatal,
    Reason::Exhausted,
    Reason::Window,
    Reason::TooOld,
    Reason::Cancelled,
    Reason::Dropped,
    Reason::OutcomeUnknown,
];

pub(crate) fn any_body() -> impl Strategy<Value = Body> {
    let causes = vec![NotKept::TooLarge, NotKept::Unserializable, NotKept::Resolved];
    prop_oneof![
        (proptest::collection::vec(any::<u8>(), 0..300), a_moment())
            .prop_map(|(bytes, until)| Body::Kept { bytes, until }),
        (proptest::sample::select(causes), any::<u64>(), any::<[u8; 32]>())
            .prop_map(|(cause, size, digest)| Body::NotKept { cause, size, digest }),
    ]
}

fn any_state() -> impl Strategy<Value = State> {
    let place = proptest::sample::select(vec![Place::Here, Place::Elsewhere]);
    let on_lapse = proptest::sample::select(vec![OnLapse::Rerun, OnLapse::Report]);
    prop_oneof![
        (a_moment(), proptest::option::of(any::<String>()))
            .prop_map(|(due_at, error)| State::Pending { due_at, error }),
        (any::<u128>(), a_moment(), place, on_lapse).prop_map(|(holder, lease_until, place, on_lapse)| {
            State::InProgress { holder: Holder(holder), lease_until, place, on_lapse }
        }),
        any_body().prop_map(State::Completed),
        (any_reason(), any::<String>()).prop_map(|(reason, error)| State::Failed { reason, error }),
    ]
}

pub(crate) fn any_record() -> impl Strategy<Value = Record> {
    (any_fingerprint(), any_state(), any::<u32>(), a_moment(), a_moment(), a_moment()).prop_map(
        |(fingerprint, state, attempts, created_at, updated_at, expires_at)| Record {
            fingerprint,
            state,
            attempts,
            created_at,
            updated_at,
            expires_at,
        },
    )
}

fn any_phase() -> impl Strategy<Value = Phase> {
    prop_oneof![
        a_moment().prop_map(|it| Phase::Pending(Due::At(it))),
        (a_moment(), a_moment()).prop_map(|(since, due_at)| Phase::Pending(Due::Parked { since, due_at })),
        (any::<u128>(), a_moment(), a_moment()).prop_map(|(holder, lease_until, since)| Phase::InProgress {
            holder: Holder(holder),
            lease_until,
            since
        }),
        any_body().prop_map(Phase::Completed),
        (any_reason(), any::<String>()).prop_map(|(reason, error)| Phase::Failed { reason, error }),
    ]
}

fn an_event() -> impl Strategy<Value = Option<Arc<[u8]>>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..100).prop_map(Arc::from))
}

fn an_origin() -> impl Strategy<Value = Origin> {
    any::<(String, String, String)>().prop_map(|(source, id, kind)| Origin {
        source: source.into(),
        id: id.into(),
        kind: kind.into(),
    })
}

fn an_order() -> impl Strategy<Value = Option<Order>> {
    let order = any::<(String, u64)>().prop_map(|(key, sequence)| Order { key: key.into(), sequence });
    proptest::option::of(order)
}

fn a_history() -> impl Strategy<Value = Vec<Attempt>> {
    let attempt = (any::<(u32, u32, Option<String>)>(), a_moment(), a_moment()).prop_map(
        |((generation, number, error), began_at, ended_at)| Attempt {
            generation,
            number,
            began_at,
            ended_at,
            error,
        },
    );
    proptest::collection::vec(attempt, 0..=HISTORY_ATTEMPTS_MAX)
}

pub(crate) fn any_repeats() -> impl Strategy<Value = Repeats> {
    (any::<(u32, u32)>(), proptest::option::of(a_moment())).prop_map(|((same, other), last_at)| Repeats {
        same,
        other,
        last_at,
    })
}

pub(crate) fn any_execution() -> impl Strategy<Value = Execution> {
    let times = (a_moment(), a_moment(), a_moment());
    let maybe = || proptest::option::of(a_moment());
    let maybes = (maybe(), maybe(), maybe());
    let names = (any_key(), "[a-z-]{1,20}", any_fingerprint(), an_event());
    let counts = (any::<u32>(), any::<u32>(), proptest::option::of(any::<String>()));
    let story = (an_origin(), an_order(), a_history(), any_repeats());
    let all = (names, any_phase(), times, maybes, counts, story);
    all.prop_map(|(names, phase, times, maybes, counts, story)| Execution {
        key: names.0,
        function: names.1.into(),
        origin: story.0,
        order: story.1,
        history: story.2,
        repeats: story.3,
        fingerprint: names.2,
        event: names.3,
        event_time: maybes.0,
        event_expires_at: maybes.1,
        phase,
        attempts: counts.0,
        generation: counts.1,
        accepted_at: times.0,
        first_attempt_at: maybes.2,
        updated_at: times.1,
        last_error: counts.2,
        expires_at: times.2,
    })
}

pub(crate) fn any_input() -> impl Strategy<Value = Input> {
    let duration = || any::<u64>().prop_map(Duration::from_millis);
    prop_oneof![
        any_body().prop_map(Input::Complete),
        any::<String>().prop_map(|error| Input::Reject { error }),
        (any::<String>(), proptest::option::of(duration()))
            .prop_map(|(error, retry_after)| Input::Fail { error, retry_after }),
        any::<String>().prop_map(|error| Input::Interrupt { error }),
        any::<(String, bool)>().prop_map(|(error, was_made)| Input::Doubt { error, was_made }),
        duration().prop_map(|delay| Input::HandBack { delay }),
        a_moment().prop_map(|lease_until| Input::Renew { lease_until }),
        Just(Input::Lapse),
        Just(Input::Cancel),
        Just(Input::Park),
        Just(Input::Unpark),
        an_event().prop_map(|event| Input::Redrive { event }),
        proptest::option::of(Just(vec![1])).prop_map(|it| Input::Resolve(Resolution::Happened(it))),
        Just(Input::Resolve(Resolution::DidNot)),
        any_repeats().prop_map(Input::Repeat),
    ]
}
