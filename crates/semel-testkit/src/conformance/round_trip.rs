//! Rules about records coming back as they were written.

use super::sample::{HOUR, completed, expect_stored, fresh_key, record, write};
use semel_core::{
    fingerprint::Fingerprint,
    record::{Body, Holder, NotKept, OnLapse, Place, Reason, Record, State},
    store::Store,
    time::Timestamp,
};

/// The inline body limit of the library, which every store must take.
const LARGE_BYTES: usize = 64 * 1024;

/// Every variant of every field comes back as it was written.
pub async fn every_state_loads_back_as_written(store: &dyn Store) {
    let now = store.clock().now();
    let mut fence = None;
    let key = fresh_key("states");
    for state in every_state(now + HOUR) {
        let record = record(store, state);
        let written = write(store, &key, fence, &record).await;
        expect_stored(store, &key, written, &record).await;
        fence = Some(written);
    }
}

fn every_state(later: Timestamp) -> Vec<State> {
    let text = "no such card: ärger 💥 'quoted' \"twice\"\n\tand\0more";
    let mut states = vec![
        State::Pending { due_at: later, error: None },
        State::Pending { due_at: later, error: Some(String::new()) },
        State::Pending { due_at: later, error: Some(text.to_owned()) },
        State::Completed(Body::Kept { bytes: Vec::new(), until: later }),
        State::Completed(Body::Kept { bytes: (0..=u8::MAX).collect(), until: later }),
    ];
    for place in [Place::Here, Place::Elsewhere] {
        for on_lapse in [OnLapse::Rerun, OnLapse::Report] {
            states.push(State::InProgress { holder: Holder(7), lease_until: later, place, on_lapse });
        }
    }
    for cause in [NotKept::TooLarge, NotKept::Unserializable, NotKept::Resolved] {
        states.push(State::Completed(Body::NotKept { cause, size: 1 << 40, digest: [0xa5; 32] }));
    }
    let reasons = [
        Reason::Fatal,
        Reason::Exhausted,
        Reason::Window,
        Reason::TooOld,
        Reason::Cancelled,
        Reason::Dropped,
        Reason::OutcomeUnknown,
    ];
    states.extend(reasons.map(|reason| State::Failed { reason, error: text.to_owned() }));
    states
}

/// The smallest and the largest numbers survive, which narrower columns would cut.
pub async fn extreme_numbers_load_back_as_written(store: &dyn Store) {
    let key = fresh_key("extremes");
    let mut fence = None;
    for (number, moment, attempts) in [(0, Timestamp::EPOCH, 0), (u128::MAX, Timestamp::NEVER, u32::MAX)] {
        let state = State::InProgress {
            holder: Holder(number),
            lease_until: moment,
            place: Place::Elsewhere,
            on_lapse: OnLapse::Report,
        };
        let record = Record {
            fingerprint: Fingerprint::of_bytes(&number.to_be_bytes()),
            state,
            attempts,
            created_at: moment,
            updated_at: moment,
            expires_at: Timestamp::NEVER,
        };
        let written = write(store, &key, fence, &record).await;
        expect_stored(store, &key, written, &record).await;
        fence = Some(written);
    }
}

/// Bodies of any size up to the library's limit come back byte for byte, also ones that do not compress.
pub async fn large_and_empty_bodies_load_back_as_written(store: &dyn Store) {
    let later = store.clock().now() + HOUR;
    for size in [0, 1, 255, 256, 4_096, LARGE_BYTES - 1, LARGE_BYTES] {
        for bytes in [vec![0; size], noise(size)] {
            let (key, record) = (fresh_key("body"), completed(store, &bytes, later));
            let fence = write(store, &key, None, &record).await;
            expect_stored(store, &key, fence, &record).await;
        }
    }
}

/// Nothing of a long record shines through a short one written over it.
pub async fn a_longer_record_makes_way_for_a_shorter_one(store: &dyn Store) {
    let later = store.clock().now() + HOUR;
    let key = fresh_key("shrinking");
    let mut fence = None;
    for size in [LARGE_BYTES, 100, 0] {
        let record = completed(store, &noise(size), later);
        let written = write(store, &key, fence, &record).await;
        expect_stored(store, &key, written, &record).await;
        fence = Some(written);
    }
}

/// Bytes that no compression shortens, the same in every run.
fn noise(size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(size as u64);
    std::iter::repeat_with(|| random.u8(..)).take(size).collect()
}
