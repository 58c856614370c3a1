//! Operations on many executions: on one node, and as the others see them.

use super::{
    SECOND, World,
    control::{dead, failed, told},
    event, orders,
};
use crate::support::{
    queue::{Method, When},
    targets::{Target, status},
};
use semel_core::{
    execution::ErrorPrint,
    queue::Filter,
    record::{Reason, Status},
    time::Clock as _,
};
use semel_runtime::{Aborting, Action, BulkOptions, Job, JobState, Progress, Rate, Runtime};
use std::sync::atomic::Ordering;

/// Begins to redrive what failed.
async fn redriven(world: &World, options: BulkOptions) -> Job {
    world.runtime.bulk(failed(), Action::Redrive(None), options, "ada").await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_job_counts_first_and_then_redrives_everything_that_matches() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    let ids = dead(&world, 40).await;
    let dry = BulkOptions { dry_run: true, ..BulkOptions::default() };
    let counted = redriven(&world, dry).await.finished().await;
    assert_eq!(counted, Progress { matched: 40, done: 0, skipped: 0, state: JobState::Finished });
    assert_eq!(target.seen().len(), 40);
    code.store(200, Ordering::Relaxed);
    let mut job = redriven(&world, BulkOptions::default()).await;
    assert_eq!(job.finished().await.done, 40);
    world.pass(SECOND * 5).await;
    for id in ids {
        assert_eq!(world.status(id).await, Status::Completed);
    }
    assert_eq!(world.runtime.jobs().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_stops_when_its_canary_fails_again_and_goes_on_when_it_does_not() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    dead(&world, 40).await;
    let options = BulkOptions { canary: Some(3), ..BulkOptions::default() };
    let stopped = redriven(&world, options).await.finished().await;
    assert_eq!((stopped.state, stopped.done), (JobState::CanaryFailed, 3));
    code.store(200, Ordering::Relaxed);
    let went_on = redriven(&world, options).await.finished().await;
    assert_eq!((went_on.state, went_on.done), (JobState::Finished, 40));
}

#[tokio::test(start_paused = true)]
async fn a_job_keeps_to_its_rate_and_can_be_aborted() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    dead(&world, 200).await;
    code.store(200, Ordering::Relaxed);
    let rate = Rate::new(10, SECOND);
    let options = BulkOptions { rate, ..BulkOptions::default() };
    let mut job = redriven(&world, options).await;
    world.pass(SECOND * 5).await;
    let done = job.progress().done;
    assert!((2..=20).contains(&done), "{done} in five seconds, on the way up to ten per second");
    let _told = world.runtime.abort(job.number(), "bob").await.unwrap();
    let aborted = job.finished().await;
    assert_eq!(aborted.state, JobState::Aborted);
    assert!(aborted.done < 60, "{aborted:?}");
}

/// One an hour: the first goes at once, the second not ten hours later.
#[tokio::test(start_paused = true)]
async fn a_job_with_a_slow_rate_begins_at_once_and_is_aborted_while_it_waits() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    dead(&world, 5).await;
    code.store(200, Ordering::Relaxed);
    let rate = Rate::new(1, SECOND * 3_600);
    let options = BulkOptions { rate, ..BulkOptions::default() };
    let mut job = redriven(&world, options).await;
    world.pass(SECOND).await;
    assert_eq!(job.progress().done, 1);
    world.pass(SECOND * 3_700).await;
    assert_eq!(job.progress().done, 2);
    let before = world.clock.monotonic();
    let _told = world.runtime.abort(job.number(), "bob").await.unwrap();
    let aborted = job.finished().await;
    assert_eq!((aborted.state, aborted.done), (JobState::Aborted, 2));
    assert!(world.clock.monotonic() < before + SECOND, "it waited for its rate");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_aborted_while_it_waits_for_its_canary_was_aborted() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    dead(&world, 5).await;
    world.runtime.pause("orders", "ada").await.unwrap();
    let options = BulkOptions { canary: Some(1), ..BulkOptions::default() };
    let mut job = redriven(&world, options).await;
    world.pass(SECOND * 5).await;
    assert_eq!(job.progress().state, JobState::Canary);
    let _told = world.runtime.abort(job.number(), "bob").await.unwrap();
    let aborted = job.finished().await;
    assert_eq!((aborted.state, aborted.done), (JobState::Aborted, 1));
}

#[tokio::test(start_paused = true)]
async fn a_job_redrives_what_died_and_not_what_somebody_ended() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    dead(&world, 3).await;
    world.runtime.pause("orders", "ada").await.unwrap();
    let (ended, _) = world.accept(&event("ended")).await;
    let _done = world.runtime.operate(ended, &Action::Cancel, "ada").await.unwrap();
    let redrive = async |filter: Filter, dry_run: bool| {
        let options = BulkOptions { dry_run, ..BulkOptions::default() };
        let mut job =
            world.runtime.bulk(filter, Action::Redrive(None), options, "ada").await.unwrap().unwrap();
        let Progress { matched, done, .. } = job.finished().await;
        (matched, done)
    };
    assert_eq!(redrive(failed(), true).await, (3, 0));
    assert_eq!(redrive(failed(), false).await, (3, 3));
    assert_eq!(world.status(ended).await, Status::Failed);
    let cancelled = Filter { reason: Some(Reason::Cancelled), ..failed() };
    assert_eq!(redrive(cancelled, false).await, (1, 1));
}

/// Who looks at one execution need not know that there was a job.
#[tokio::test(start_paused = true)]
async fn what_a_job_did_to_an_execution_is_in_that_executions_own_log() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    let ids = dead(&world, 3).await;
    let entries = async |subject: &str| {
        let page = world.runtime.audit(Some(subject), None, 10).await.unwrap();
        page.items.iter().map(|it| format!("{}: {} ({})", it.who, it.what, it.detail)).collect::<Vec<_>>()
    };
    let dry = BulkOptions { dry_run: true, ..BulkOptions::default() };
    assert_eq!(redriven(&world, dry).await.finished().await.matched, 3);
    assert_eq!(entries(&ids[0].to_string()).await, Vec::<String>::new(), "it was only counted");
    let mut job = redriven(&world, BulkOptions::default()).await;
    assert_eq!(job.finished().await.done, 3);
    let cancel = world.runtime.bulk(failed(), Action::Cancel, BulkOptions::default(), "bob").await;
    assert_eq!(cancel.unwrap().unwrap().finished().await.done, 0, "what has ended is not ended again");
    for id in ids {
        assert_eq!(entries(&id.to_string()).await, ["ada: redrive (job 2)"]);
    }
}

/// So many dead letters, one node that redrives them slowly, and another one that looks on.
async fn slow_job(count: usize) -> (World, Runtime, Job) {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    let other = world.node(&target, [orders()]).await;
    dead(&world, count).await;
    code.store(200, Ordering::Relaxed);
    let options = BulkOptions { rate: Rate::new(10, SECOND), ..BulkOptions::default() };
    let job = redriven(&world, options).await;
    (world, other, job)
}

async fn seen_by(node: &Runtime, job: &Job) -> Progress {
    node.job(job.number()).await.unwrap().unwrap().progress
}

#[tokio::test(start_paused = true)]
async fn a_job_is_seen_and_aborted_on_a_node_that_does_not_run_it() {
    let (world, other, mut job) = slow_job(200).await;
    world.pass(SECOND * 5 + SECOND / 10).await;
    let seen = other.jobs().await.unwrap().pop().unwrap();
    assert_eq!((seen.number, &*seen.action, &*seen.who), (job.number(), "redrive", "ada"));
    assert_eq!(seen.progress.state, JobState::Running);
    assert!(seen.progress.done > 0 && seen.progress.done <= job.progress().done, "{seen:?}");
    let told = other.abort(job.number(), "bob").await.unwrap();
    assert!(matches!(told, Aborting::Told(_)), "{told:?}");
    world.pass(SECOND).await;
    let aborted = job.progress();
    assert_eq!(aborted.state, JobState::Aborted, "its node did not hear of it");
    assert_eq!((job.finished().await, seen_by(&other, &job).await), (aborted.clone(), aborted));
    let again = other.abort(job.number(), "bob").await.unwrap();
    assert!(matches!(again, Aborting::Over(_)), "{again:?}");
    let subject = format!("job {}", job.number());
    let entries = world.runtime.audit(Some(&subject), None, 10).await.unwrap().items;
    let told: Vec<_> = entries.iter().map(|it| (&*it.who, &*it.what)).collect();
    assert_eq!(told, [("ada", "end of job"), ("bob", "abort"), ("ada", "job")]);
}

#[tokio::test(start_paused = true)]
async fn no_two_jobs_have_one_number_wherever_they_run() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    let other = world.node(&target, [orders()]).await;
    let cancel = async |node: &Runtime| {
        let job = node.bulk(failed(), Action::Cancel, BulkOptions::default(), "ada").await;
        job.unwrap().unwrap().number()
    };
    let (one, two) = tokio::join!(cancel(&world.runtime), cancel(&other));
    let three = cancel(&other).await;
    assert_eq!((one + two, three), (3, 3), "{one} and {two}");
    world.pass(SECOND).await;
    assert_eq!(world.runtime.jobs().await.unwrap(), other.jobs().await.unwrap());
    assert_eq!(other.abort(4, "ada").await.unwrap(), Aborting::NotFound);
    assert_eq!(other.job(4).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_node_is_gone_is_interrupted_and_says_how_far_it_got() {
    let (world, other, mut job) = slow_job(200).await;
    world.pass(SECOND * 5).await;
    let done = job.progress().done;
    world.runtime.crash();
    assert_eq!(job.finished().await.state, JobState::Interrupted);
    assert_eq!(seen_by(&other, &job).await.state, JobState::Running, "it may yet be heard of");
    world.pass(SECOND * 15).await;
    let seen = seen_by(&other, &job).await;
    assert_eq!(seen.state, JobState::Interrupted);
    assert!(seen.done > 0 && seen.done <= done, "{seen:?} of {done}");
    let told = other.abort(job.number(), "bob").await.unwrap();
    assert!(matches!(told, Aborting::Over(_)), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_node_is_stopped_is_interrupted_and_everybody_knows() {
    let (world, other, mut job) = slow_job(200).await;
    world.pass(SECOND * 5).await;
    assert!(world.runtime.shutdown(SECOND).await);
    let ended = job.finished().await;
    assert_eq!((&ended.state, ended.done > 0), (&JobState::Interrupted, true));
    assert_eq!(seen_by(&other, &job).await, ended);
}

/// Others say that it is interrupted, so it must be.
#[tokio::test(start_paused = true)]
async fn a_job_of_which_nothing_could_be_written_for_long_stops() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    dead(&world, 5).await;
    let options = BulkOptions { rate: Rate::new(1, SECOND * 3_600), ..BulkOptions::default() };
    let mut job = redriven(&world, options).await;
    world.pass(SECOND).await;
    world.queue.fail(Method::Write, When::Before, u32::MAX);
    world.pass(SECOND * 16).await;
    assert_eq!(seen_by(&world.runtime, &job).await.state, JobState::Interrupted);
    world.queue.fail(Method::Write, When::Before, 0);
    let ended = job.finished().await;
    assert_eq!((ended.state, ended.done), (JobState::Interrupted, 1));
    world.pass(SECOND * 7_200).await;
    assert_eq!(seen_by(&world.runtime, &job).await.done, 1);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_could_not_be_written_at_once_is_written() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    let mut job =
        world.runtime.bulk(failed(), Action::Cancel, BulkOptions::default(), "ada").await.unwrap().unwrap();
    world.queue.fail(Method::Write, When::After, 3);
    assert_eq!(job.finished().await.state, JobState::Finished);
    assert_eq!(seen_by(&world.runtime, &job).await.state, JobState::Finished);
    let entries = world.runtime.audit(Some("job 1"), None, 10).await.unwrap().items;
    assert_eq!(entries.len(), 2, "{entries:?}");
}

/// Calls of it take this long where the event is slow, and fail with one error.
fn failing_after(time: std::time::Duration) -> std::sync::Arc<Target> {
    Target::new(move |delivery| async move {
        let is_slow = delivery.headers["ce-id"].to_str().unwrap().starts_with("slow");
        tokio::time::sleep(if is_slow { time } else { SECOND / 100 }).await;
        // It is alive, so that nobody leaves it alone.
        status(409, "no space left on device 17")
    })
}

#[tokio::test(start_paused = true)]
async fn what_is_in_progress_while_errors_are_stopped_is_stopped_when_it_fails() {
    let target = failing_after(SECOND * 30);
    let world = World::new(&target, [orders()]).await;
    let (quick, _) = world.accept(&event("evt-1")).await;
    let (first, _) = world.accept(&event("slow-1")).await;
    world.pass(SECOND).await;
    let error = world.stored(quick).await.value.error().unwrap().to_owned();
    let mut job = world.runtime.stop_errors(ErrorPrint::of(&error), "ada").await.unwrap().unwrap();
    world.pass(SECOND * 3).await;
    assert_eq!((job.progress().done, job.progress().state), (1, JobState::Running));
    let (later, _) = world.accept(&event("evt-2")).await;
    let stopped = job.finished().await;
    assert_eq!(stopped, Progress { matched: 3, done: 3, skipped: 0, state: JobState::Finished });
    world.pass(SECOND * 3_600).await;
    assert_eq!(target.seen().len(), 3);
    for id in [quick, first, later] {
        let stored = world.stored(id).await.value;
        assert_eq!((stored.status(), stored.due_at()), (Status::Pending, None), "it is parked");
        let entries = world.runtime.audit(Some(&id.to_string()), None, 10).await.unwrap().items;
        let told: Vec<_> = entries.iter().map(|it| (&*it.who, &*it.what, it.detail.as_str())).collect();
        assert_eq!(told, [("ada", "park", "job 1")]);
    }
}

/// It has failed that way before, and is at its next attempt when somebody stops that.
#[tokio::test(start_paused = true)]
async fn what_has_failed_before_and_is_being_tried_again_is_stopped_too() {
    let target = failing_after(SECOND * 30);
    let policy = orders().policy.with_backoff(semel_core::retry::Backoff::Immediate).unwrap();
    let world = World::new(&target, [semel_runtime::Function { policy, ..orders() }]).await;
    let (id, _) = world.accept(&event("slow-1")).await;
    world.pass(SECOND * 40).await;
    let running = world.stored(id).await.value;
    assert_eq!((running.status(), running.attempts), (Status::InProgress, 2));
    let print = ErrorPrint::of(running.error().unwrap());
    let mut job = world.runtime.stop_errors(print, "ada").await.unwrap().unwrap();
    assert_eq!(job.finished().await.state, JobState::Finished);
    world.pass(SECOND * 3_600).await;
    let stopped = world.stored(id).await.value;
    assert_eq!(
        (stopped.status(), stopped.due_at()),
        (Status::Pending, None),
        "{} attempts",
        stopped.attempts
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_that_stops_errors_ends_though_there_is_always_something_in_progress() {
    let target = failing_after(SECOND * 30);
    let world = World::new(&target, [orders()]).await;
    let (quick, _) = world.accept(&event("evt-1")).await;
    world.pass(SECOND).await;
    let print = ErrorPrint::of(world.stored(quick).await.value.error().unwrap());
    let job = world.runtime.stop_errors(print, "ada").await.unwrap().unwrap();
    for number in 0..200 {
        world.accept(&event(&format!("slow-{number}"))).await;
        world.pass(SECOND * 20).await;
    }
    assert_eq!(job.progress().state, JobState::Finished, "{:?}", job.progress());
    assert!(job.progress().done > 100, "{:?}", job.progress());
}

/// The ids of the events that a target was given after so many others.
fn given(target: &Target, after: usize) -> Vec<String> {
    target.seen()[after..].iter().map(|it| it.id.clone()).collect()
}

/// The last effect is to be that of the latest event, whatever the rate.
#[tokio::test(start_paused = true)]
async fn what_has_an_order_is_redriven_in_that_order() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let order = Some("type".parse().unwrap());
    let world = World::new(&target, [semel_runtime::Function { order, ..orders() }]).await;
    let ids = dead(&world, 5).await;
    let stored = world.stored(ids[4]).await.value;
    assert!(stored.order.is_some() && stored.status() == Status::Failed);
    code.store(200, Ordering::Relaxed);
    let options = BulkOptions { rate: Rate::new(1, SECOND), ..BulkOptions::default() };
    let mut job = redriven(&world, options).await;
    assert_eq!(job.finished().await.done, 5);
    world.pass(SECOND).await;
    assert_eq!(given(&target, 5), ["evt-0", "evt-1", "evt-2", "evt-3", "evt-4"]);
}

/// More than are gathered at once: what was accepted first goes first all the same.
#[tokio::test(start_paused = true)]
async fn very_many_are_redriven_once_each_and_the_oldest_first() {
    const COUNT: usize = 6_000;
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    for number in 0..COUNT {
        world.accept(&event(&format!("evt-{number}"))).await;
        if number % 100 == 0 {
            world.pass(SECOND / 100).await;
        }
    }
    world.pass(SECOND * 120).await;
    assert_eq!(target.seen().len(), COUNT);
    code.store(200, Ordering::Relaxed);
    let mut job = redriven(&world, BulkOptions::default()).await;
    let done = job.finished().await;
    assert_eq!((done.matched, done.done), (COUNT as u64, COUNT as u64));
    world.pass(SECOND * 120).await;
    assert_eq!(target.seen().len(), 2 * COUNT);
    let mut first = given(&target, COUNT)[..100].to_vec();
    first.sort();
    let mut oldest: Vec<_> = (0..COUNT).map(|it| format!("evt-{it}")).take(1_000).collect();
    oldest.sort();
    assert!(first.iter().all(|it| oldest.binary_search(it).is_ok()), "{first:?}");
}

/// A canary that asks to be tried again has failed, though it takes effect before anybody looks.
#[tokio::test(start_paused = true)]
async fn a_canary_that_took_effect_at_its_second_attempt_has_failed() {
    let calls = std::sync::atomic::AtomicU32::new(0);
    let target = Target::new(move |_| {
        let code = match calls.fetch_add(1, Ordering::Relaxed) {
            0..5 => 422,
            5 => 409,
            _ => 200,
        };
        async move {
            tokio::time::sleep(SECOND / 100).await;
            status(code, "said so")
        }
    });
    let policy = orders().policy.with_backoff(semel_core::retry::Backoff::Immediate).unwrap();
    let world = World::new(&target, [semel_runtime::Function { policy, ..orders() }]).await;
    dead(&world, 5).await;
    // Paused, so that both attempts are between two looks of the job.
    world.runtime.pause("orders", "ada").await.unwrap();
    let options = BulkOptions { canary: Some(1), ..BulkOptions::default() };
    let mut job = redriven(&world, options).await;
    world.pass(SECOND / 2).await;
    world.runtime.resume("orders", "ada").await.unwrap();
    let ended = job.finished().await;
    assert_eq!((ended.state, ended.done), (JobState::CanaryFailed, 1));
    assert_eq!(target.seen().len(), 7, "it took effect at its second attempt");
}

/// The canary took half a minute, and its target is only just back.
#[tokio::test(start_paused = true)]
async fn the_rate_rises_anew_after_the_canary() {
    let (target, code) = told();
    code.store(422, Ordering::Relaxed);
    let world = World::new(&target, [orders()]).await;
    dead(&world, 100).await;
    code.store(200, Ordering::Relaxed);
    world.runtime.pause("orders", "ada").await.unwrap();
    let options = BulkOptions { rate: Rate::new(10, SECOND), canary: Some(1), ..BulkOptions::default() };
    let job = redriven(&world, options).await;
    world.pass(SECOND * 60).await;
    assert_eq!((job.progress().state, job.progress().done), (JobState::Canary, 1));
    world.runtime.resume("orders", "ada").await.unwrap();
    world.pass(SECOND * 5).await;
    let done = job.progress().done;
    assert!((2..=20).contains(&done), "{done} within five seconds of the canary");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_in_no_log() {
    let (target, _) = told();
    let world = World::new(&target, [orders()]).await;
    let dry = BulkOptions { dry_run: true, ..BulkOptions::default() };
    assert_eq!(redriven(&world, dry).await.finished().await.state, JobState::Finished);
    assert_eq!(world.runtime.audit(None, None, 10).await.unwrap().items, []);
}
