//! Rules about many at once.

use super::sample::{Bench, HOUR, completed, fresh_function, fresh_holder};
use crate::{conformance::contention::spawned, join::join_all};
use semel_core::{
    BoxFuture,
    execution::{Execution, ExecutionId},
    fence::Fence,
    queue::{Accepted, Fenced, Queue, Written},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

const CALLERS: usize = 16;
const EXECUTIONS: usize = 64;
/// Most rounds that a worker of the hammer goes without finding anything before it concludes that all is done.
const IDLE_ROUNDS_MAX: usize = 3;

/// Of many who accept the same ids at once, one is told that each is new, and the others are shown it.
pub async fn concurrent_accepts_have_one_winner(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let batch: Vec<Execution> = (0..8).map(|it| bench.due(&format!("evt-{it}"))).collect();
    let reversed: Vec<Execution> = batch.iter().rev().cloned().collect();
    let batches = (0..CALLERS).map(|it| if it % 2 == 0 { &batch } else { &reversed });
    let accepts = batches.map(|it| Box::pin(accept(&bench, it)) as BoxFuture<'_, _>);
    let answers: Vec<(ExecutionId, Accepted)> =
        join_all(accepts.collect()).await.into_iter().flatten().collect();
    judge_accepts(&bench, &batch, &answers).await;
}

async fn accept(bench: &Bench<'_>, batch: &[Execution]) -> Vec<(ExecutionId, Accepted)> {
    let answers = bench.accept(batch).await;
    batch.iter().map(Execution::id).zip(answers).collect()
}

/// Demands one winner for each, whose execution everybody else was shown.
async fn judge_accepts(bench: &Bench<'_>, batch: &[Execution], answers: &[(ExecutionId, Accepted)]) {
    for execution in batch {
        let id = execution.id();
        let stands = bench.stored(&id).await;
        let of_id = answers.iter().filter(|(it, _)| *it == id);
        let won = of_id.clone().filter(|(_, it)| *it == Accepted::New(stands.fence)).count();
        let shown = Accepted::Duplicate(Box::new(stands));
        let shown = of_id.clone().filter(|(_, it)| *it == shown).count();
        assert_eq!((won, shown), (1, of_id.count() - 1), "won and shown, of `{}`", execution.key);
    }
    assert_eq!(bench.counts().await.accepted, batch.len() as u64);
}

/// Of many who claim at once, no two are handed the same, and together they are handed everything.
pub async fn concurrent_claimers_never_get_the_same(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let batch: Vec<Execution> = (0..EXECUTIONS).map(|it| bench.due(&format!("evt-{it}"))).collect();
    let _ = bench.accept(&batch).await;
    let claims = (0..CALLERS).map(|_| Box::pin(bench.claim(7)) as BoxFuture<'_, _>);
    let handed_out: Vec<Fenced<Execution>> = join_all(claims.collect()).await.into_iter().flatten().collect();
    let rest = bench.claim(EXECUTIONS as u32).await;
    let all: Vec<ExecutionId> = handed_out.iter().chain(&rest).map(|it| it.value.id()).collect();
    let different: BTreeSet<&ExecutionId> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (EXECUTIONS, EXECUTIONS), "handed out twice, or not at all");
    assert_eq!(bench.counts().await.in_progress, EXECUTIONS as u64);
}

/// Of many who write under the same fence, one wins, and what it wrote is what stands.
pub async fn concurrent_writes_have_one_winner(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let mut stands = bench.accept_new(&bench.due("evt-1")).await;
    for _ in 0..8 {
        let lease_until = bench.now() + HOUR;
        let afters: Vec<Execution> =
            (0..CALLERS).map(|_| bench.leased(&bench.due("evt-1"), fresh_holder(), lease_until)).collect();
        let writes = afters.iter().map(|it| Box::pin(bench.write_one(stands.fence, it)) as BoxFuture<'_, _>);
        let written = join_all(writes.collect()).await;
        let winners: Vec<(Fence, &Execution)> = written
            .iter()
            .zip(&afters)
            .filter_map(|(written, after)| match written {
                Written::Won(fence) => Some((*fence, after)),
                Written::Lost => None,
            })
            .collect();
        let [(fence, after)] = winners[..] else { panic!("{} won the same write", winners.len()) };
        bench.expect_stored(fence, after).await;
        stands = Fenced { fence, value: after.clone() };
    }
}

/// Accepts in any sequence with writes and claims of the same executions at once do not stand in each other's way.
pub async fn crossing_batches_do_not_deadlock(queue: &dyn Queue) {
    let bench = Bench::new(queue);
    let batch: Vec<Execution> = (0..EXECUTIONS).map(|it| bench.due(&format!("evt-{it}"))).collect();
    let reversed: Vec<Execution> = batch.iter().rev().cloned().collect();
    let _ = bench.accept(&batch).await;
    let callers = (0..CALLERS).map(|caller| {
        let (bench, batch) = (&bench, if caller % 2 == 0 { &batch } else { &reversed });
        Box::pin(async move {
            let held = bench.claim(5).await;
            let _ = bench.accept(batch).await;
            let later = bench.now() + HOUR;
            let mut changes: Vec<_> =
                held.iter().map(|it| super::sample::change(it.fence, &completed(&it.value, later))).collect();
            if caller % 2 == 0 {
                changes.reverse();
            }
            let written = bench.write(&changes).await;
            assert!(written.iter().all(|it| matches!(it, Written::Won(_))), "nobody else held these");
        }) as BoxFuture<'_, ()>
    });
    join_all(callers.collect()).await;
    let counts = bench.counts().await;
    assert_eq!((counts.accepted, counts.in_progress), (EXECUTIONS as u64, 0));
}

/// The rules about many at once, with a task for each: `spawn` starts one on the queue's runtime.
///
/// Several accept the same executions, some of them under orders; several run what is handed out, some of it
/// twice as slowly as its lease allows; an oracle watches. Each execution is completed once, in its order.
///
/// A task that panics or is dropped breaks the rule, as a caller that the queue lost.
pub async fn contended(queue: Arc<dyn Queue>, spawn: impl Fn(BoxFuture<'static, ()>)) {
    let function = fresh_function();
    let batch = {
        let bench = Bench { queue: &*queue, function: Arc::clone(&function) };
        let new = |it: usize| match it % 4 {
            0 => bench.ordered(&format!("evt-{it:03}"), &format!("order-{}", it % 3)),
            _ => bench.due(&format!("evt-{it:03}")),
        };
        (0..EXECUTIONS * 2).map(new).collect::<Vec<Execution>>()
    };
    let accepts = (0..CALLERS).map(|caller| {
        let (queue, function, mut batch) = (Arc::clone(&queue), Arc::clone(&function), batch.clone());
        let turn = caller * 5 % batch.len();
        batch.rotate_left(turn);
        Box::pin(async move { accept(&Bench { queue: &*queue, function }, &batch).await })
            as BoxFuture<'static, _>
    });
    let answers: Vec<_> = spawned(accepts.collect(), &spawn).await.into_iter().flatten().collect();
    judge_accepts(&Bench { queue: &*queue, function: Arc::clone(&function) }, &batch, &answers).await;
    let ticks = Arc::<AtomicU64>::default();
    let workers = (0..CALLERS).map(|worker| {
        let (queue, function, ticks) = (Arc::clone(&queue), Arc::clone(&function), Arc::clone(&ticks));
        Box::pin(async move { work(&Bench { queue: &*queue, function }, worker, &ticks).await })
            as BoxFuture<'static, _>
    });
    let settled: Vec<Settled> = spawned(workers.collect(), &spawn).await.into_iter().flatten().collect();
    judge_work(&Bench { queue: &*queue, function }, &batch, &settled).await;
}

/// What a worker completed, and when by the count of all workers.
struct Settled {
    it: Fenced<Execution>,
    /// After it was handed out.
    began: u64,
    /// Before it was written.
    ended: u64,
}

/// Completes what it is handed until nothing is left, and says what it completed.
async fn work(bench: &Bench<'_>, worker: usize, ticks: &AtomicU64) -> Vec<Settled> {
    let tick = || ticks.fetch_add(1, Ordering::SeqCst);
    let (mut settled, mut idle) = (Vec::new(), 0);
    while idle < IDLE_ROUNDS_MAX {
        // Every third lets its leases lapse, and so is sometimes superseded.
        let held =
            if worker.is_multiple_of(3) { bench.claim_and_crash(3).await } else { bench.claim(3).await };
        let began = tick();
        idle = if held.is_empty() && !is_unfinished(bench).await { idle + 1 } else { 0 };
        let later = bench.now() + HOUR;
        let after: Vec<Execution> = held.iter().map(|it| completed(&it.value, later)).collect();
        let changes: Vec<_> =
            held.iter().zip(&after).map(|(it, after)| super::sample::change(it.fence, after)).collect();
        let ended = tick();
        for (written, value) in bench.write(&changes).await.into_iter().zip(after) {
            if let Written::Won(fence) = written {
                settled.push(Settled { it: Fenced { fence, value }, began, ended });
            }
        }
        crate::join::yield_now().await;
    }
    settled
}

async fn is_unfinished(bench: &Bench<'_>) -> bool {
    let counts = bench.counts().await;
    counts.pending + counts.in_progress > 0
}

/// Demands that each was completed once, and each order in its sequence.
async fn judge_work(bench: &Bench<'_>, batch: &[Execution], settled: &[Settled]) {
    let ids: BTreeSet<ExecutionId> = settled.iter().map(|it| it.it.value.id()).collect();
    assert_eq!((ids.len(), settled.len()), (batch.len(), batch.len()), "completed twice, or not at all");
    let mut lines: BTreeMap<&str, Vec<&Settled>> = BTreeMap::new();
    for it in settled {
        bench.expect_stored(it.it.fence, &it.it.value).await;
        if let Some(order) = &it.it.value.order {
            lines.entry(&order.key).or_default().push(it);
        }
    }
    for (order, mut line) in lines {
        line.sort_by_key(|it| it.it.value.order.as_ref().map(|it| it.sequence));
        for pair in line.windows(2) {
            let [first, second] = [&pair[0].it.value.key, &pair[1].it.value.key];
            let in_turn = pair[0].ended < pair[1].began;
            assert!(in_turn, "`{second}` of `{order}` was handed out before `{first}` was over");
        }
    }
}
