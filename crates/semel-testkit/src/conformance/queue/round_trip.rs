//! Rules about executions coming back as they were written.

use super::sample::{Bench, HOUR, fresh_holder, in_phase};
use semel_core::{
    execution::{Attempt, Due, Execution, HISTORY_ATTEMPTS_MAX, Order, Phase, Repeats},
    queue::{EVENT_BYTES_MAX, Queue},
    record::{Body, ERROR_BYTES_MAX, Holder, NotKept, Reason},
    time::Timestamp,
};

const TEXT: &str = "no such card: ärger 💥 'quoted' \"twice\"\n\tand\0more \\ \u{2028}";

/// Every variant of every field comes back as it was accepted, as it was written, and from a list.
pub async fn every_execution_comes_back_as_written(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let mut fence = bench.accept_new(&bench.due("written")).await.fence;
    for (index, phase) in every_phase(bench.now() + HOUR).into_iter().enumerate() {
        let accepted = in_phase(&bench.due(&format!("accepted-{index}")), phase.clone());
        let stands = bench.accept_new(&accepted).await;
        assert_eq!(stands.value, accepted, "accepted as {phase:?}");
        let written = in_phase(&bench.due("written"), phase);
        fence = bench.overwrite(fence, &written).await;
        bench.expect_stored(fence, &written).await;
    }
    for item in super::sample::list(queue, &bench.all(), 500).await {
        bench.expect_stored(item.fence, &item.value).await;
    }
}

fn every_phase(later: Timestamp) -> Vec<Phase> {
    let mut phases = vec![
        Phase::Pending(Due::At(later)),
        Phase::Pending(Due::Parked { since: Timestamp::EPOCH, due_at: later }),
        Phase::InProgress { holder: fresh_holder(), lease_until: later, since: Timestamp::EPOCH },
        Phase::Completed(Body::Kept { bytes: Vec::new(), until: later }),
        Phase::Completed(Body::Kept { bytes: (0..=u8::MAX).collect(), until: later }),
    ];
    let causes = [NotKept::TooLarge, NotKept::Unserializable, NotKept::Resolved];
    phases.extend(
        causes.map(|cause| Phase::Completed(Body::NotKept { cause, size: 1 << 40, digest: [0xa5; 32] })),
    );
    phases.extend(Reason::ALL.map(|reason| Phase::Failed { reason, error: TEXT.to_owned() }));
    phases
}

/// The smallest and the largest numbers survive, and everything that can be left out or be long.
pub async fn extreme_executions_come_back_as_written(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    for (id, number, count, moment) in
        [("least", 0, 0, Timestamp::EPOCH), ("most", u128::MAX, u32::MAX, Timestamp::NEVER)]
    {
        let phase = Phase::InProgress { holder: Holder(number), lease_until: moment, since: moment };
        let attempt = Attempt {
            generation: count,
            number: count,
            began_at: moment,
            ended_at: moment,
            error: (count > 0).then(|| TEXT.to_owned()),
        };
        let execution = Execution {
            event_time: Some(moment),
            event_expires_at: Some(moment),
            attempts: count,
            generation: count,
            accepted_at: moment,
            first_attempt_at: Some(moment),
            updated_at: moment,
            last_error: Some("é".repeat(if count > 0 { ERROR_BYTES_MAX / 2 } else { 0 })),
            history: vec![attempt; HISTORY_ATTEMPTS_MAX],
            repeats: Repeats { same: count, other: count, last_at: Some(moment) },
            ..in_phase(&bench.due(id), phase)
        };
        let stands = bench.accept_new(&execution).await;
        assert_eq!(stands.value, execution);
        let rewritten = Execution { history: Vec::new(), last_error: None, ..execution };
        let fence = bench.overwrite(stands.fence, &rewritten).await;
        bench.expect_stored(fence, &rewritten).await;
    }
}

/// Events of any size up to the largest come back byte for byte, also ones that do not compress, through a claim
/// and a write.
pub async fn large_events_come_back_byte_for_byte(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    for size in [0, 1, 255, 4_096, 65_536, EVENT_BYTES_MAX - 1, EVENT_BYTES_MAX] {
        let event = noise(size);
        let new = Execution { event: Some(event.into()), ..bench.due(&size.to_string()) };
        let stands = bench.accept_new(&new).await;
        assert!(stands.value == new, "an event of {size} bytes was changed");
        let held = bench.claim(1).await.remove(0);
        assert!(held.value.event == new.event, "an event of {size} bytes was changed by its claim");
        let body = Body::Kept { bytes: b"done".to_vec(), until: Timestamp::NEVER };
        let done = in_phase(&held.value, Phase::Completed(body));
        bench.overwrite(held.fence, &done).await;
        let stands = bench.stored(&new.id()).await;
        assert!(stands.value == done, "an event of {size} bytes was changed by a write");
    }
}

/// Nothing of a long execution shines through a short one written over it, and the order it has is kept.
pub async fn a_longer_execution_makes_way_for_a_shorter_one(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let mut stands = bench.accept_new(&bench.ordered("evt-1", "order-7")).await;
    for size in [100_000, 100, 0] {
        let body = Body::Kept { bytes: noise(size), until: Timestamp::NEVER };
        let after = Execution {
            event: Some(noise(size).into()),
            order: stands.value.order.clone().map(|it: Order| it),
            ..in_phase(&stands.value, Phase::Completed(body))
        };
        stands.fence = bench.overwrite(stands.fence, &after).await;
        stands.value = after;
        bench.expect_stored(stands.fence, &stands.value).await;
    }
}

/// Bytes that no compression shortens, the same in every run.
fn noise(size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(size as u64);
    std::iter::repeat_with(|| random.u8(..)).take(size).collect()
}
