//! Requests on their way to a connection.
//!
//! 1. A request is put in line. If fewer lanes are open than may be, whoever put it there opens one more: a task
//!    that holds a connection for as long as there are requests, and then ends.
//! 2. So a connection is taken and given back once for many requests, which is most of what a short statement
//!    costs, and a store takes only its share of a pool.
//! 3. A caller that goes away does not interrupt its request: what was sent is carried out, and the connection
//!    stays usable.
//! 4. A lane that is dropped (its runtime ended) leaves its line to the others; the last one drops the line, so
//!    that nobody waits for ever.
//!
//! It does not know what requests are.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The line, and how many lanes serve it.
pub(crate) struct Lanes<J> {
    line: Arc<Mutex<Line<J>>>,
    lanes_max: usize,
}

struct Line<J> {
    waiting: VecDeque<J>,
    lanes: usize,
}

/// One who serves the line until it is empty.
pub(crate) struct Lane<J> {
    line: Arc<Mutex<Line<J>>>,
    is_open: bool,
}

impl<J> Lanes<J> {
    pub(crate) fn new(lanes_max: usize) -> Self {
        let line = Line { waiting: VecDeque::new(), lanes: 0 };
        Self { line: Arc::new(Mutex::new(line)), lanes_max }
    }

    /// Puts a request in line. The caller must serve the lane, if it is given one.
    #[must_use = "a lane must be served"]
    pub(crate) fn push(&self, request: J) -> Option<Lane<J>> {
        let mut line = lock(&self.line);
        line.waiting.push_back(request);
        if line.lanes == self.lanes_max {
            return None;
        }
        line.lanes += 1;
        Some(Lane { line: Arc::clone(&self.line), is_open: true })
    }
}

impl<J> Lane<J> {
    /// The next request; none closes the lane.
    pub(crate) fn next(&mut self) -> Option<J> {
        let mut line = lock(&self.line);
        let request = line.waiting.pop_front();
        if request.is_none() && self.is_open {
            self.is_open = false;
            line.lanes -= 1;
        }
        request
    }

    /// Those that wait now, at most so many.
    #[cfg(feature = "sqlite")]
    pub(crate) fn more(&mut self, max: usize) -> Vec<J> {
        let mut line = lock(&self.line);
        let count = line.waiting.len().min(max);
        line.waiting.drain(..count).collect()
    }
}

impl<J> Drop for Lane<J> {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let mut line = lock(&self.line);
        line.lanes -= 1;
        if line.lanes == 0 {
            let forsaken = std::mem::take(&mut line.waiting);
            drop(line);
            drop(forsaken);
        }
    }
}

/// Nothing that is done under the lock panics.
fn lock<J>(line: &Mutex<Line<J>>) -> MutexGuard<'_, Line<J>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn only_so_many_lanes_are_open_at_once() {
        let lanes = Lanes::new(2);
        let mut first = lanes.push(1).unwrap();
        let mut second = lanes.push(2).unwrap();
        assert!(lanes.push(3).is_none());
        assert_eq!(
            [first.next(), second.next(), first.next(), second.next()],
            [Some(1), Some(2), Some(3), None]
        );
        assert!(lanes.push(4).is_some(), "a lane that ended makes room for another");
        assert_eq!(first.next(), Some(4));
    }

    #[test]
    fn who_waits_behind_the_last_lane_is_told_when_it_is_dropped() {
        let lanes = Lanes::new(1);
        let (sender, receiver) = mpsc::channel::<()>();
        let lane = lanes.push(sender.clone()).unwrap();
        assert!(lanes.push(sender).is_none());
        drop(lane);
        assert_eq!(receiver.recv(), Err(mpsc::RecvError));
    }

    #[test]
    fn a_dropped_lane_leaves_its_line_to_the_others() {
        let lanes = Lanes::new(2);
        let dropped = lanes.push(1).unwrap();
        let mut other = lanes.push(2).unwrap();
        drop(dropped);
        assert_eq!([other.next(), other.next(), other.next()], [Some(1), Some(2), None]);
    }
}
