//! What is written is read, and nothing else.

use crate::given::{any_event, full, order};
use bytes::Bytes;
use proptest::prelude::*;
use semel_core::wire::WireError;
use semel_events::event::{Event, VERSION};

fn decode(bytes: &[u8]) -> Result<Event, WireError> {
    Event::decode(&Bytes::copy_from_slice(bytes))
}

/// The content with a checksum that is right for it.
fn sealed(content: &[u8]) -> Vec<u8> {
    [content, &crc32fast::hash(content).to_le_bytes()].concat()
}

/// What version 1 wrote. It is never changed: there are stores that hold such bytes.
const VERSION_1: &[u8] = include_bytes!("../fixtures/event-v1.bin");
const VERSION_1_BARE: &[u8] = include_bytes!("../fixtures/event-v1-bare.bin");

#[test]
fn what_version_1_wrote_is_read_for_ever() {
    assert_eq!(decode(VERSION_1).unwrap(), full());
    assert_eq!(decode(VERSION_1_BARE).unwrap(), order().build().unwrap());
}

#[test]
fn version_1_is_written_as_ever() {
    assert_eq!(full().encode(), VERSION_1);
    assert_eq!(order().build().unwrap().encode(), VERSION_1_BARE);
}

#[test]
fn damaged_bytes_are_never_an_event() {
    let bytes = full().encode();
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "cut at {length}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode(&damaged), Err(WireError::Checksum), "bit {bit}");
    }
}

#[test]
fn newer_bytes_are_told_from_damaged_ones() {
    let newer = sealed(&[VERSION + 1, 0, 0]);
    assert_eq!(decode(&newer), Err(WireError::Newer { found: VERSION + 1, supported: VERSION }));
    assert_eq!(decode(&sealed(&[0])), Err(WireError::Malformed("the version")));
}

#[test]
fn bytes_that_hold_no_event_are_refused_though_their_checksum_is_right() {
    let content = |bytes: &[u8]| bytes[..bytes.len() - 4].to_vec();
    let bare = content(VERSION_1_BARE);
    let trailing = sealed(&[&bare[..], b"x"].concat());
    assert_eq!(decode(&trailing), Err(WireError::Malformed("what follows the end")));
    for length in 1..bare.len() {
        assert!(matches!(decode(&sealed(&bare[..length])), Err(WireError::Malformed(_))), "cut at {length}");
    }
    let blank_id = sealed(&[&[VERSION, 2, b' '], &bare[7..]].concat());
    assert_eq!(decode(&blank_id), Err(WireError::Malformed("the event")));
    // A length of gigabytes, with nothing behind it.
    let long = sealed(&[VERSION, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(decode(&long), Err(WireError::Malformed("the id")));
}

#[test]
fn the_data_that_was_read_is_not_copied() {
    let bytes = Bytes::from(full().encode());
    let event = Event::decode(&bytes).unwrap();
    assert!(bytes.as_ptr_range().contains(&event.data().unwrap().as_ptr()));
}

proptest! {
    #[test]
    fn every_event_is_read_as_it_was_written(event in any_event()) {
        prop_assert_eq!(decode(&event.encode()).unwrap(), event);
    }
}
