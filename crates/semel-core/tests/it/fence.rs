//! Fences only grow, whatever the clock does.

use crate::given::{a_moment, at};
use proptest::prelude::*;
use semel_core::{fence::Fence, time::Timestamp};

#[test]
fn a_fence_lost_with_the_power_is_not_issued_again() {
    let lost = Fence::next(Fence::new(7), at(1_000));
    let after_restart = Fence::next(Fence::new(7), at(1_001));
    assert!(after_restart > lost);
}

#[test]
fn a_clock_at_the_end_of_time_leaves_fences_to_come() {
    let mut last = Fence::next(None, Timestamp::NEVER);
    for _ in 0..1_000 {
        let next = Fence::next(Some(last), Timestamp::NEVER);
        assert!(next > last);
        last = next;
    }
    assert!(i64::try_from(last.get()).is_ok(), "a database's integer holds it");
}

proptest! {
    #![proptest_config(crate::given::config())]

    #[test]
    fn fences_grow_under_every_jump_of_the_clock(moments in proptest::collection::vec(a_moment(), 1..100)) {
        let mut last = None;
        for moment in moments {
            let next = Fence::next(last, moment);
            prop_assert!(Some(next) > last, "{:?} after {:?} at {:?}", next, last, moment);
            last = Some(next);
        }
    }
}
