//! What the queue writes: see [`crate::fuzz`].

use super::{
    card::{self, Card},
    columns,
    list::Place,
    totals::Own,
};
use semel_core::{key::Identity, queue::Cursor};

/// What stands in front of an execution.
pub(crate) fn card(bytes: &[u8]) {
    let Some((card, rest)) = Card::split(bytes) else { return };
    let mut again = Vec::new();
    card.put(&mut again);
    again.extend(rest);
    assert_eq!(Card::split(&again), Some((card, rest)), "written and read");
}

/// A whole execution, under the identity that its first bytes say: with its checksum, and with the right one.
pub(crate) fn execution(bytes: &[u8]) {
    let Some((identity, payload)) = bytes.split_first_chunk() else { return };
    let identity = Identity::from_bytes(*identity);
    let mut sealed = payload.to_vec();
    if let Some((_, execution)) = Card::split(payload)
        && let Some((content, _)) = execution.split_last_chunk::<4>()
    {
        let sum = crc32fast::hash(content).to_le_bytes();
        sealed.truncate(payload.len() - 4);
        sealed.extend(sum);
    }
    for payload in [payload, &sealed] {
        let listed = columns::of(&identity, payload);
        assert_eq!(listed.len(), columns::LAYOUT.count, "each column has a value");
        let Ok(execution) = card::decode(&identity, payload) else { continue };
        let again = card::encode(&execution).expect("what was read is not too large");
        assert_eq!(card::decode(&identity, &again).ok(), Some(execution), "written and read");
    }
}

/// What the queue writes between the values.
pub(crate) fn own(bytes: &[u8]) {
    if let Some(own) = Own::from_bytes(bytes) {
        assert_eq!(own.to_bytes(), bytes, "what is read was written so");
    }
}

/// Where a page ended.
pub(crate) fn place(bytes: &[u8]) {
    if let Ok(place) = Place::read(&Cursor(bytes.to_vec())) {
        assert_eq!(Place::read(&place.cursor()).ok(), Some(place), "written and read");
    }
}
