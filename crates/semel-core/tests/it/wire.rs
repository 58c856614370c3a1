//! Stored bytes: what was written once is read for ever, and nothing else is.

use crate::given::{NOON, a_key, any_execution, any_key, any_record};
use proptest::prelude::*;
use semel_core::{
    execution::{Attempt, Due, Execution, ExecutionId, Order, Origin, Phase, Repeats},
    fingerprint::Fingerprint,
    key::Key,
    record::{Body, Holder, NotKept, OnLapse, Place, Reason, Record, State},
    time::Timestamp,
    wire::{self, WireError},
};
use std::{env, fs, path::PathBuf, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

/// One record of each state variant, by the name of its fixture. Never change one: add.
fn records() -> Vec<(&'static str, Record)> {
    let finished = |state| Record { expires_at: NOON + SECOND * 604_802, ..record(state) };
    vec![
        ("pending", record(State::Pending { due_at: NOON + SECOND, error: Some("card declined".into()) })),
        ("pending_silent", record(State::Pending { due_at: NOON, error: None })),
        ("in_progress", record(in_progress(Place::Here, OnLapse::Rerun))),
        ("in_progress_elsewhere", record(in_progress(Place::Elsewhere, OnLapse::Report))),
        (
            "completed",
            finished(State::Completed(Body::Kept {
                bytes: br#"{"charged":1050}"#.to_vec(),
                until: NOON + SECOND * 86_402,
            })),
        ),
        (
            "completed_not_kept",
            finished(State::Completed(Body::NotKept {
                cause: NotKept::TooLarge,
                size: 70_000,
                digest: [0xab; 32],
            })),
        ),
        ("failed", finished(State::Failed { reason: Reason::Fatal, error: "no such order".into() })),
        ("failed_unknown", record(State::Failed { reason: Reason::OutcomeUnknown, error: "lapsed".into() })),
        ("no_payload", without_payload()),
    ]
}

fn record(state: State) -> Record {
    Record {
        fingerprint: Fingerprint::of_bytes(b"payload"),
        state,
        attempts: 2,
        created_at: NOON,
        updated_at: NOON + SECOND * 2,
        expires_at: Timestamp::NEVER,
    }
}

fn without_payload() -> Record {
    let pending = record(State::Pending { due_at: NOON, error: None });
    Record { fingerprint: Fingerprint::EMPTY, ..pending }
}

fn in_progress(place: Place, on_lapse: OnLapse) -> State {
    State::InProgress {
        holder: Holder(0x0123_4567_89ab_cdef),
        lease_until: NOON + SECOND * 62,
        place,
        on_lapse,
    }
}

fn a_completed() -> (Key, Record) {
    let (_, record) = records().into_iter().find(|it| it.0 == "completed").expect("listed above");
    (a_key(), record)
}

fn fixture_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.hex"))
}

/// The bytes of a fixture.
fn fixture(name: &str) -> Vec<u8> {
    let path = fixture_path(name);
    let kept = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{} is there", path.display()));
    let kept = kept.trim();
    (0..kept.len()).step_by(2).map(|it| u8::from_str_radix(&kept[it..it + 2], 16).expect("hex")).collect()
}

/// Compares bytes with their fixture; with `SEMEL_BLESS` set, writes a fixture that is not there yet.
fn check_fixture(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = fixture_path(name);
    let hex = bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    if env::var_os("SEMEL_BLESS").is_some() && !path.exists() {
        fs::write(&path, format!("{hex}\n")).expect("the fixtures can be written");
    }
    let kept = fixture(name);
    assert_eq!(kept, bytes, "{name}: today's code writes other bytes than the ones in the field");
    kept
}

#[test]
fn every_state_is_read_from_its_fixture_and_written_the_same() {
    for (name, record) in records() {
        let kept = check_fixture(&format!("record_v1_{name}"), &wire::encode(&a_key(), &record));
        assert_eq!(wire::decode(a_key().identity(), &kept), Ok((a_key(), record.clone())), "{name}");
        assert_eq!(wire::decode_record(&a_key(), &kept), Ok(record), "{name}");
    }
}

/// Before the fingerprint of no payload had a byte for itself, it was written out.
#[test]
fn a_fingerprint_of_no_payload_is_read_also_where_it_was_written_in_full() {
    let kept = fixture("record_v1_no_payload_in_full");
    assert_eq!(wire::decode(a_key().identity(), &kept), Ok((a_key(), without_payload())));
}

/// One execution of each phase variant, by the name of its fixture. Never change one: add.
fn executions() -> Vec<(&'static str, Execution)> {
    let pending = Execution {
        key: a_key(),
        function: "process-order".into(),
        origin: Origin {
            source: "/shop".into(),
            id: "evt-0123456789ab".into(),
            kind: "order.created".into(),
        },
        order: None,
        fingerprint: Fingerprint::of_bytes(b"payload"),
        event: Some(br#"{"id":"evt-0123456789ab"}"#.as_slice().into()),
        event_time: Some(NOON - SECOND),
        event_expires_at: None,
        phase: Phase::Pending(Due::At(NOON)),
        attempts: 0,
        generation: 0,
        accepted_at: NOON,
        first_attempt_at: None,
        updated_at: NOON,
        last_error: None,
        history: vec![],
        repeats: Repeats::default(),
        expires_at: Timestamp::NEVER,
    };
    let attempt = Attempt {
        generation: 1,
        number: 2,
        began_at: NOON + SECOND * 20,
        ended_at: NOON + SECOND * 21,
        error: Some("503 Service Unavailable".into()),
    };
    let begun = Execution {
        order: Some(Order { key: "customer-7".into(), sequence: 12 }),
        history: vec![attempt.clone(), Attempt { number: 3, error: None, ..attempt }],
        repeats: Repeats { same: 2, other: 1, last_at: Some(NOON + SECOND * 30) },
        attempts: 3,
        generation: 1,
        event_expires_at: Some(NOON + SECOND * 3_600),
        first_attempt_at: Some(NOON + SECOND),
        updated_at: NOON + SECOND * 40,
        last_error: Some("503 Service Unavailable".into()),
        ..pending.clone()
    };
    let ended = Execution { expires_at: NOON + SECOND * 604_840, ..begun.clone() };
    let in_phase = |it: &Execution, phase| Execution { phase, ..it.clone() };
    let lease_until = NOON + SECOND * 110;
    let result = Body::Kept { bytes: b"done".to_vec(), until: NOON + SECOND * 86_440 };
    let no_result = Body::NotKept { cause: NotKept::Resolved, size: 0, digest: [0; 32] };
    let dead = Phase::Failed { reason: Reason::Exhausted, error: "503 Service Unavailable".into() };
    let dropped = Phase::Failed { reason: Reason::Dropped, error: "500".into() };
    vec![
        ("pending", pending),
        (
            "parked",
            in_phase(
                &begun,
                Phase::Pending(Due::Parked { since: NOON + SECOND * 40, due_at: NOON + SECOND * 50 }),
            ),
        ),
        (
            "in_progress",
            in_phase(
                &begun,
                Phase::InProgress {
                    holder: Holder(0x0123_4567_89ab_cdef),
                    lease_until,
                    since: NOON + SECOND * 40,
                },
            ),
        ),
        ("completed", in_phase(&ended, Phase::Completed(result))),
        ("completed_not_kept", in_phase(&ended, Phase::Completed(no_result))),
        ("failed", in_phase(&ended, dead)),
        ("dropped", Execution { event: None, ..in_phase(&ended, dropped) }),
    ]
}

#[test]
fn every_phase_is_read_from_its_fixture_and_written_the_same() {
    for (name, execution) in executions() {
        let kept = check_fixture(&format!("execution_v1_{name}"), &wire::encode_execution(&execution));
        println!("{name}: {} bytes", kept.len());
        assert_eq!(wire::decode_execution(&execution.id(), &kept), Ok(execution), "{name}");
    }
}

#[test]
fn every_damage_to_an_execution_is_noticed() {
    for (name, execution) in executions() {
        let bytes = wire::encode_execution(&execution);
        let decode = |bytes: &[u8]| wire::decode_execution(&execution.id(), bytes);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), Err(WireError::Checksum), "{name}: bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{name}: {length} bytes");
            let cut = sealed(bytes[..length.min(bytes.len() - 5)].to_vec());
            assert!(decode(&cut).is_err(), "{name}: cut at {length}");
        }
    }
}

#[test]
fn a_record_is_never_taken_for_an_execution_nor_the_other_way_round() {
    let id = ExecutionId::of(&a_key());
    for (name, record) in records() {
        assert!(wire::decode_execution(&id, &wire::encode(&a_key(), &record)).is_err(), "{name}");
    }
    for (name, execution) in executions() {
        assert!(wire::decode(a_key().identity(), &wire::encode_execution(&execution)).is_err(), "{name}");
    }
}

#[test]
fn an_execution_that_was_moved_to_another_id_is_refused() {
    let other = ExecutionId::of(&Key::new("process-order", "evt-0123456789ac").unwrap());
    for (name, execution) in executions() {
        let bytes = wire::encode_execution(&execution);
        assert_eq!(wire::decode_execution(&other, &bytes), Err(WireError::OtherKey), "{name}");
    }
}

#[test]
fn a_small_completed_record_takes_no_more_than_130_bytes() {
    let (key, record) = a_completed();
    let length = wire::encode(&key, &record).len();
    println!("{length} bytes, of which {} are the key's", key.preimage().len());
    assert!(length <= 130, "{length} bytes");
}

#[test]
fn every_flipped_bit_is_noticed() {
    for (name, record) in records() {
        let bytes = wire::encode(&a_key(), &record);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                wire::decode(a_key().identity(), &damaged),
                Err(WireError::Checksum),
                "{name}: bit {bit}"
            );
        }
    }
}

#[test]
fn every_overwritten_byte_is_noticed() {
    let (key, record) = a_completed();
    let bytes = wire::encode(&key, &record);
    for index in 0..bytes.len() {
        for value in (0..=u8::MAX).filter(|it| *it != bytes[index]) {
            let mut damaged = bytes.clone();
            damaged[index] = value;
            assert!(wire::decode_record(&key, &damaged).is_err(), "byte {index} as {value}");
        }
    }
}

#[test]
fn every_cut_and_every_extra_byte_is_noticed() {
    for (name, record) in records() {
        let bytes = wire::encode(&a_key(), &record);
        for length in 0..bytes.len() {
            assert!(wire::decode(a_key().identity(), &bytes[..length]).is_err(), "{name}: {length} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(wire::decode(a_key().identity(), &longer).is_err(), "{name}: one byte more");
    }
}

/// Behind a checksum that holds, nothing is trusted either: each byte, and each cut, with the checksum redone.
#[test]
fn bytes_that_semel_did_not_write_are_refused_or_read_without_panic() {
    for (_, record) in records() {
        let bytes = wire::encode(&a_key(), &record);
        let content = &bytes[..bytes.len() - 4];
        for index in 0..content.len() {
            let cut = sealed(content[..index].to_vec());
            assert!(wire::decode(a_key().identity(), &cut).is_err(), "cut at {index}");
            for value in 0..=u8::MAX {
                let mut forged = content.to_vec();
                forged[index] = value;
                let _ = wire::decode(a_key().identity(), &sealed(forged));
            }
        }
    }
}

#[test]
fn a_hostile_length_allocates_nothing() {
    let (key, record) = a_completed();
    let bytes = wire::encode(&key, &record);
    let content = &bytes[..bytes.len() - 4];
    let body = content.windows(10).position(|it| it == br#"{"charged""#).expect("the body is in there");
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let forged = [&content[..body - 1], &huge, &content[body..]].concat();
    assert_eq!(wire::decode_record(&key, &sealed(forged)), Err(WireError::Malformed("the result")));
}

#[test]
fn a_row_that_was_moved_to_another_key_is_refused() {
    let (key, record) = a_completed();
    let bytes = wire::encode(&key, &record);
    let other = Key::new("process-order", "evt-0123456789ac").unwrap();
    assert_eq!(wire::decode(other.identity(), &bytes), Err(WireError::OtherKey));
    assert_eq!(wire::decode_record(&other, &bytes), Err(WireError::OtherKey));
}

#[test]
fn a_newer_format_says_to_upgrade() {
    let (key, record) = a_completed();
    let bytes = wire::encode(&key, &record);
    let mut newer = bytes[..bytes.len() - 4].to_vec();
    newer[0] = wire::VERSION + 1;
    let error = wire::decode_record(&key, &sealed(newer)).unwrap_err();
    assert_eq!(error, WireError::Newer { found: wire::VERSION + 1, supported: wire::VERSION });
    assert_eq!(error.to_string(), "stored in format 2, but this Semel reads formats up to 1: upgrade Semel");
}

#[test]
fn appending_leaves_what_was_there() {
    let (key, record) = a_completed();
    let mut out = b"before".to_vec();
    wire::encode_into(&mut out, &key, &record);
    assert_eq!(out, [b"before", &wire::encode(&key, &record)[..]].concat());
}

pub(crate) fn sealed(mut content: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&content);
    content.extend(checksum.to_le_bytes());
    content
}

proptest! {
    #![proptest_config(crate::given::config())]

    #[test]
    fn any_record_comes_back_as_it_was(key in any_key(), record in any_record()) {
        let bytes = wire::encode(&key, &record);
        prop_assert_eq!(wire::decode_record(&key, &bytes), Ok(record.clone()));
        prop_assert_eq!(wire::decode(key.identity(), &bytes), Ok((key, record)));
    }

    #[test]
    fn any_execution_comes_back_as_it_was(execution in any_execution()) {
        let bytes = wire::encode_execution(&execution);
        prop_assert_eq!(wire::decode_execution(&execution.id(), &bytes), Ok(execution));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let framed = sealed([&[wire::VERSION][..], &bytes].concat());
        let _ = wire::decode(a_key().identity(), &bytes);
        let _ = wire::decode(a_key().identity(), &framed);
        let _ = wire::decode_execution(&ExecutionId::of(&a_key()), &framed);
    }
}
