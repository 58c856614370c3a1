//! What happened, as Prometheus reads it.
//!
//! 1. Counters of this node since its start, and counts of all executions, by function. The names of functions are the
//!    operator's: nobody who sends events can make a label.
//! 2. The queue keeps its counts, so that asking costs the same at any backlog. Where it does not answer, `semel_up` is 0
//!    and its counts are left out.

use super::{
    Answer, Foundation,
    foundation::{Ailments, Room},
    health::answer,
};
use crate::ingest::Ingest;
use http::{Response, StatusCode};
use semel_core::{queue::Counts, record::Reason, time::Clock};
use semel_runtime::{FunctionStatus, Totals, Waiting};
use std::{fmt::Write as _, time::Duration};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How long the queue may take.
const QUEUE_MAX: Duration = Duration::from_secs(2);

/// Everything that is counted.
pub(super) async fn metrics(ingest: &Ingest, foundation: &Foundation) -> Response<Answer> {
    let counts = tokio::time::timeout(QUEUE_MAX, ingest.runtime.counts()).await;
    let counts = counts.ok().and_then(Result::ok);
    let mut text = String::with_capacity(8 * 1024);
    family(&mut text, "semel_up", "gauge", "Whether the store answers.", [("", u64::from(counts.is_some()))]);
    ingest.counters.write(&mut text);
    of_node(&mut text, &ingest.runtime.status());
    of_entrance(&mut text, ingest.runtime.waiting());
    of_queue(&mut text, counts.as_deref().unwrap_or_default());
    of_disk(&mut text, foundation.room());
    of_ailments(&mut text, &foundation.ailments());
    of_past(&mut text, ingest.runtime.queue().went_back().is_some());
    of_clock(&mut text, &*ingest.runtime.queue().clock());
    answer(StatusCode::OK, CONTENT_TYPE, text.into())
}

/// A name, what it means, and a value for each set of labels.
fn family<L: AsRef<str>>(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, u64)>,
) {
    // Nothing fails to be written to a string.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in values {
        let _ = match labels.as_ref() {
            "" => writeln!(text, "{name} {value}"),
            labels => writeln!(text, "{name}{{{labels}}} {value}"),
        };
    }
}

fn function(name: &str) -> String {
    format!("function=\"{name}\"")
}

type Total = fn(&Totals) -> u64;
type Count = fn(&Counts) -> u64;

/// What this node has done.
fn of_node(text: &mut String, all: &[FunctionStatus]) {
    let totals: [(&str, &str, Total); 11] = [
        ("accepted", "Events accepted as new.", |it| it.accepted),
        ("accepted_claimed", "Of them, delivered from memory.", |it| it.accepted_claimed),
        ("duplicate", "Events that had come before.", |it| it.duplicates),
        ("mismatch", "Of them, with another content.", |it| it.mismatches),
        ("attempts", "Attempts that began.", |it| it.attempts),
        ("completed", "Attempts that took effect.", |it| it.completed),
        ("retried", "Attempts that failed and are made again.", |it| it.retried),
        ("dead", "Executions that became dead letters.", |it| it.dead),
        ("handed_back", "Claimed executions that were handed back.", |it| it.handed_back),
        ("superseded", "Attempts that somebody else had taken over.", |it| it.superseded),
        ("abandoned", "Attempts whose end could not be written.", |it| it.abandoned),
    ];
    for (name, help, total) in totals {
        let values = all.iter().map(|it| (function(&it.function), total(&it.totals)));
        family(text, &format!("semel_function_{name}_total"), "counter", help, values);
    }
    let in_flight = all.iter().map(|it| (function(&it.function), u64::from(it.in_flight)));
    family(text, "semel_function_in_flight", "gauge", "Calls under way.", in_flight);
    let paused = all.iter().map(|it| (function(&it.function), u64::from(it.is_paused)));
    let breakers = all.iter().map(|it| (function(&it.function), u64::from(!it.breaker.is_closed())));
    family(
        text,
        "semel_function_target_down",
        "gauge",
        "Whether its target is thought to be down.",
        breakers,
    );
    family(text, "semel_function_paused", "gauge", "Whether it starts nothing.", paused);
}

/// How many wait to be written, which is more than few only where the queue is slow.
fn of_entrance(text: &mut String, waiting: Waiting) {
    let (now, limit) = (waiting.now as u64, waiting.limit as u64);
    family(text, "semel_ingest_waiting", "gauge", "Executions that wait to be written.", [("", now)]);
    family(
        text,
        "semel_ingest_waiting_limit",
        "gauge",
        "How many may: fewer while the store is slow.",
        [("", limit)],
    );
}

/// How full the disk is, where that can be seen.
fn of_disk(text: &mut String, room: Option<Room>) {
    let Some(room) = room else { return };
    family(text, "semel_disk_used_bytes", "gauge", "What the queue takes of the disk.", [("", room.used)]);
    family(text, "semel_disk_left_bytes", "gauge", "What it may still take.", [("", room.left)]);
    let days = room.days_to_full.map(|it| ("", it));
    family(text, "semel_disk_days_to_full", "gauge", "Until nothing is left, as it grows now.", days);
}

/// What is wrong with what is kept, as far as this node has seen.
fn of_ailments(text: &mut String, found: &Ailments) {
    let damaged = found.damaged.len() as u64;
    family(
        text,
        "semel_executions_damaged",
        "gauge",
        "Executions that are left alone because they cannot be read.",
        [("", damaged)],
    );
    let trouble = u64::from(found.trouble.is_some());
    family(
        text,
        "semel_housekeeping_failing",
        "gauge",
        "Whether what is finished cannot be tidied up.",
        [("", trouble)],
    );
    let refuses = u64::from(found.refuses.is_some());
    family(
        text,
        "semel_store_full",
        "gauge",
        "Whether no new events are taken, for want of room.",
        [("", refuses)],
    );
}

/// Whether somebody has to decide what becomes of what is there.
fn of_past(text: &mut String, went_back: bool) {
    family(
        text,
        "semel_store_went_back",
        "gauge",
        "Whether the store forgot what it had acknowledged: nothing is delivered until somebody decides.",
        [("", u64::from(went_back))],
    );
}

/// How far what leases are judged by is from what signatures are: more than little where a machine slept, or its clock was set.
fn of_clock(text: &mut String, clock: &dyn Clock) {
    let (now, wall) = (clock.now(), clock.wall());
    let apart = wall.since(now).max(now.since(wall)).as_secs();
    family(
        text,
        "semel_clock_apart_seconds",
        "gauge",
        "How far this node's own time is from its machine's clock.",
        [("", apart)],
    );
}

/// What there is, on all nodes together.
fn of_queue(text: &mut String, all: &[Counts]) {
    let by_status: [(&str, Count); 3] = [
        ("PENDING", |it| it.pending),
        ("IN_PROGRESS", |it| it.in_progress),
        ("COMPLETED", |it| it.completed),
    ];
    let labels = |it: &Counts, status: &str| format!("{},status=\"{status}\"", function(&it.function));
    let standing = by_status
        .iter()
        .flat_map(|(status, count)| all.iter().map(move |it| (labels(it, status), count(it))));
    family(text, "semel_executions", "gauge", "Executions that are remembered, by status.", standing);
    let failed = Reason::ALL.iter().flat_map(|reason| {
        all.iter().map(move |it| {
            let labels = format!("{},reason=\"{}\"", function(&it.function), reason.as_str());
            (labels, it.failed[*reason as usize])
        })
    });
    family(text, "semel_executions_failed", "gauge", "Executions that failed, by reason.", failed);
    let accepted = all.iter().map(|it| (function(&it.function), it.accepted));
    family(text, "semel_executions_accepted_total", "counter", "Executions ever accepted.", accepted);
    let purged = all.iter().map(|it| (function(&it.function), it.purged));
    family(text, "semel_executions_purged_total", "counter", "Executions ever purged.", purged);
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{BoxFuture, time::Timestamp};

    /// By which it is this second for leases, and that for signatures.
    struct Clocks(u64, u64);

    impl Clock for Clocks {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(self.0 * 1_000)
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }

        fn wall(&self) -> Timestamp {
            Timestamp::from_millis(self.1 * 1_000)
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn how_far_the_clocks_are_apart_is_told_whichever_is_ahead() {
        for (now, wall, apart) in [(500, 500, 0), (500, 530, 30), (4_100, 500, 3_600)] {
            let mut text = String::new();
            of_clock(&mut text, &Clocks(now, wall));
            assert!(text.ends_with(&format!("\nsemel_clock_apart_seconds {apart}\n")), "{text}");
        }
    }
}
