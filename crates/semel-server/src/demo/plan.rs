//! What is delivered, in which order.
//!
//! 1. Every event comes at least once.
//! 2. Of the copies, half come right after each other, so that senders have them in hand at the same time; the others come
//!    whenever they like.

use super::chance::Chance;

/// The number of the event of each delivery.
pub(super) fn deliveries(events: u32, deliveries: u32, seed: u64) -> Vec<u32> {
    let mut chance = Chance::new(seed, &[1]);
    let mut placed: Vec<(u64, u32)> = (0..events).map(|event| (chance.next(), event)).collect();
    for _ in events..deliveries {
        let (at, event) = placed[chance.below(u64::from(events)) as usize];
        let is_close = chance.below(2) == 0;
        placed.push((if is_close { at } else { chance.next() }, event));
    }
    placed.sort_unstable();
    placed.into_iter().map(|(_, event)| event).collect()
}

/// What an event charges.
pub(super) fn cents(event: u32) -> u64 {
    u64::from(event) * 7 % 9_901 + 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_comes_at_least_once_and_copies_come_close_and_far() {
        let all = deliveries(100, 400, 7);
        assert_eq!(all.len(), 400);
        assert_eq!(all, deliveries(100, 400, 7), "the seed decides");
        assert_ne!(all, deliveries(100, 400, 8));
        let mut events = all.clone();
        events.sort_unstable();
        events.dedup();
        assert_eq!(events, (0..100).collect::<Vec<_>>());
        let close = all.windows(2).filter(|it| it[0] == it[1]).count();
        assert!((50..250).contains(&close), "{close} copies are close");
    }
}
