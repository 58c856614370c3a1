//! Tasks that take one job after the other.
//!
//! 1. A job goes to whoever has been without one for the shortest time, because that task's memory is still warm; where all
//!    are at work, to a new task.
//! 2. Who has no job waits for one, [`IDLE_MAX`] of them at most; the others end.
//! 3. A job that panics ends its task, and no other.
//! 4. When the crew is dismissed, jobs are dropped: the runtime is gone, and that is a crash.
//!
//! A task for each job would be made, moved to its place and let go of once for each, and a job here is small beside the
//! future that does it.

use super::{shared::locked, tasks::Tasks};
use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex},
};
use tokio::sync::Notify;

/// Most tasks that wait for a job.
pub(crate) const IDLE_MAX: usize = 256;

/// Tasks that take one job after the other.
pub(crate) struct Crew<J> {
    idle: Arc<Idle<J>>,
    /// Begins a task with its first job.
    hire: Box<dyn Fn(J) + Send + Sync>,
}

/// Those who wait for a job; `None` once they are dismissed.
struct Idle<J>(Mutex<Option<Vec<Arc<Hand<J>>>>>);

/// How a task is given its next job.
struct Hand<J> {
    job: Mutex<Option<J>>,
    given: Notify,
}

impl<J: Send + 'static> Crew<J> {
    /// Nobody yet, among these tasks, for this work.
    pub(crate) fn new<F>(tasks: Arc<Tasks>, work: impl Fn(J) -> F + Copy + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let idle = Arc::new(Idle(Mutex::new(Some(Vec::new()))));
        let hired_to = Arc::clone(&idle);
        let hire = move |job| tasks.spawn(serve(Arc::clone(&hired_to), job, work));
        Self { idle, hire: Box::new(hire) }
    }

    /// Has this job done; drops it if the crew was dismissed.
    pub(crate) fn give(&self, job: J) {
        let waiting = match locked(&self.idle.0).as_mut() {
            Some(waiting) => waiting.pop(),
            None => return,
        };
        match waiting {
            Some(hand) => hand.give(job),
            None => (self.hire)(job),
        }
    }

    /// Nothing more is done.
    pub(crate) fn dismiss(&self) {
        let dismissed = locked(&self.idle.0).take();
        // Outside the lock: a job that was given and not begun may hold the last handle of something.
        drop(dismissed);
    }
}

impl<J> Idle<J> {
    /// Waits for the next job with the others, unless there are enough of them.
    fn join(&self, hand: &Arc<Hand<J>>) -> bool {
        let mut waiting = locked(&self.0);
        let Some(waiting) = waiting.as_mut().filter(|it| it.len() < IDLE_MAX) else { return false };
        waiting.push(Arc::clone(hand));
        true
    }
}

impl<J> Hand<J> {
    fn give(&self, job: J) {
        *locked(&self.job) = Some(job);
        self.given.notify_one();
    }

    async fn take(&self) -> J {
        loop {
            let given = locked(&self.job).take();
            if let Some(job) = given {
                return job;
            }
            self.given.notified().await;
        }
    }
}

/// Does one job after the other.
async fn serve<J, F: Future<Output = ()>>(idle: Arc<Idle<J>>, first: J, work: impl Fn(J) -> F) {
    let hand = Arc::new(Hand { job: Mutex::new(None), given: Notify::new() });
    let mut job = first;
    loop {
        work(job).await;
        if !idle.join(&hand) {
            return;
        }
        job = hand.take().await;
    }
}

impl<J> fmt::Debug for Crew<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::{Semaphore, mpsc, oneshot};

    type Told = mpsc::UnboundedSender<(u32, tokio::task::Id)>;

    /// Tells that it was begun, and by whom; ends when it may.
    struct Job {
        number: u32,
        told: Told,
        may_end: Arc<Semaphore>,
    }

    async fn work(job: Job) {
        job.told.send((job.number, tokio::task::id())).unwrap();
        drop(job.may_end.acquire().await.unwrap());
        assert_ne!(job.number, PANICS, "this one panics");
    }

    const PANICS: u32 = 7;

    fn crew() -> Crew<Job> {
        Crew::new(Arc::new(Tasks::new()), work)
    }

    async fn begun(crew: &Crew<Job>, number: u32, may_end: &Arc<Semaphore>) -> tokio::task::Id {
        let (told, mut begun) = mpsc::unbounded_channel();
        crew.give(Job { number, told, may_end: Arc::clone(may_end) });
        let (which, task) = begun.recv().await.expect("it is begun");
        assert_eq!(which, number);
        task
    }

    async fn until_idle(crew: &Crew<Job>, count: usize) {
        while locked(&crew.idle.0).as_ref().map_or(0, Vec::len) != count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_job_goes_to_whoever_was_last_done_and_else_to_somebody_new() {
        let (crew, open, shut) = (crew(), Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(0)));
        let first = begun(&crew, 1, &open).await;
        until_idle(&crew, 1).await;
        assert_eq!(begun(&crew, 2, &shut).await, first, "who is idle is given the next");
        let second = begun(&crew, 3, &shut).await;
        assert_ne!(second, first, "who is at work is given nothing");
        shut.add_permits(2);
        until_idle(&crew, 2).await;
        assert!([first, second].contains(&begun(&crew, 4, &open).await));
    }

    #[tokio::test]
    async fn a_panic_ends_one_task_and_the_next_job_is_done_all_the_same() {
        let (crew, open) = (crew(), Arc::new(Semaphore::new(1)));
        let panicked = begun(&crew, PANICS, &open).await;
        assert_ne!(begun(&crew, 1, &open).await, panicked);
        until_idle(&crew, 1).await;
    }

    #[tokio::test]
    async fn no_more_than_the_limit_wait() {
        let (crew, shut) = (crew(), Arc::new(Semaphore::new(0)));
        for number in 10..10 + IDLE_MAX as u32 + 3 {
            begun(&crew, number, &shut).await;
        }
        shut.add_permits(IDLE_MAX + 3);
        until_idle(&crew, IDLE_MAX).await;
    }

    #[tokio::test]
    async fn what_is_given_to_a_crew_that_was_dismissed_is_dropped() {
        let crew = Crew::new(Arc::new(Tasks::new()), async |it: oneshot::Sender<()>| {
            it.send(()).expect("somebody waits");
        });
        let (job, done) = oneshot::channel();
        crew.give(job);
        done.await.expect("it is done");
        crew.dismiss();
        let (job, done) = oneshot::channel();
        crew.give(job);
        assert!(done.await.is_err());
    }
}
