//! What every store must do, as one function per rule.
//!
//! 1. A rule is a sentence that could be false, takes the store as `&dyn Store`, and panics if it is false.
//! 2. [`all`] runs every rule, says which ones do not hold, and panics if there is one.
//! 3. Keys are fresh in every run, so a store may hold whatever it likes, and be checked again and again.
//! 4. Time is the store's own: moments lie in its past or its future, and nothing sleeps.
//! 5. [`contended`] asks the same under real parallelism, on whatever runtime the store needs.
//! 6. [`purge_takes_the_expired_at_once`] stands apart: a store may remove in units of its own.
//!
//! It does not test durability: a store that forgets everything at a restart can pass.
//! It calls `purge` with the store's own time, so records that have expired may go.
//!
//! ```
//! use semel::MemoryStore;
//! use semel_testkit::conformance;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! conformance::all(&MemoryStore::new()).await;
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

mod contention;
mod keys;
mod purging;
pub mod queue;
mod round_trip;
mod sample;
mod swapping;

use crate::join::caught;
use semel_core::{BoxFuture, store::Store};

pub use contention::contended;
pub use purging::purge_takes_the_expired_at_once;

/// One rule of the suite.
pub struct Rule {
    /// The rule, as a sentence.
    pub name: &'static str,
    /// Panics if the rule does not hold for this store.
    pub check: for<'a> fn(&'a dyn Store) -> BoxFuture<'a, ()>,
}

macro_rules! rules {
    ($($module:ident::$rule:ident,)*) => {
        $(pub use $module::$rule;)*

        /// Every rule that [`all`] runs.
        pub const RULES: &[Rule] =
            &[$(Rule { name: stringify!($rule), check: |store| Box::pin($rule(store)) }),*];
    };
}

rules![
    swapping::an_absent_key_loads_as_none,
    swapping::the_first_swap_wins_and_loads_back,
    swapping::a_lost_swap_shows_the_current_record,
    swapping::a_lost_swap_changes_nothing,
    swapping::the_current_fence_wins_with_a_higher_one,
    swapping::a_stale_fence_never_writes,
    swapping::a_fence_from_the_future_never_writes,
    swapping::a_fence_on_an_absent_key_is_lost_and_leaves_no_trace,
    swapping::the_same_record_written_twice_gets_two_fences,
    swapping::a_finished_record_is_guarded_like_any_other,
    swapping::a_dropped_swap_happened_or_did_not,
    round_trip::every_state_loads_back_as_written,
    round_trip::extreme_numbers_load_back_as_written,
    round_trip::large_and_empty_bodies_load_back_as_written,
    round_trip::a_longer_record_makes_way_for_a_shorter_one,
    keys::two_keys_do_not_disturb_each_other,
    keys::keys_that_look_alike_are_apart,
    keys::unicode_and_long_keys_work,
    keys::an_effect_stands_apart_from_its_handler,
    purging::an_expired_record_is_shown_as_it_was_or_absent,
    purging::purge_never_takes_unexpired_or_unfinished_records,
    purging::purge_respects_the_moment_it_is_given,
    purging::purge_of_nothing_takes_nothing,
    purging::fences_grow_over_purge_and_creation,
    purging::a_fence_from_before_a_purge_never_writes,
    contention::concurrent_swaps_have_one_winner_per_generation,
    contention::concurrent_creations_have_one_winner,
    contention::many_keys_at_once_are_all_kept,
    contention::the_clock_goes_on_and_wakes_sleepers,
];

/// Runs every rule, and panics with the names of those that do not hold.
pub async fn all(store: &dyn Store) {
    let mut broken = Vec::new();
    for rule in RULES {
        if let Err(message) = caught((rule.check)(store)).await {
            broken.push(format!("  {}: {message}", rule.name));
        }
    }
    let (count, of) = (broken.len(), RULES.len());
    assert!(broken.is_empty(), "{count} of {of} rules for stores do not hold:\n{}", broken.join("\n"));
}
