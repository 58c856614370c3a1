//! What every queue must do, as one function per rule.
//!
//! 1. A rule is a sentence that could be false, takes the queue as `&dyn Queue`, and panics if it is false.
//! 2. [`all`] runs every rule, says which ones do not hold, and panics if there is one.
//! 3. Functions are fresh in every run, so a queue may hold whatever it likes, and be checked again and again.
//! 4. Time is the queue's own: moments lie in its past or its future, and nothing sleeps.
//! 5. [`walk`] does random things, compares the queue with a model after each, and names its seed.
//! 6. [`contended`] asks under real parallelism, on whatever runtime the queue needs.
//! 7. [`purge_takes_the_expired_executions_at_once`] stands apart: a queue may remove in units of its own.
//!
//! It does not test durability: a queue that forgets everything at a restart can pass.
//! It calls `purge` with the queue's own time, so executions that have expired may go.

mod accepting;
mod claiming;
mod contention;
mod counting;
mod listing;
mod model;
mod naming;
mod ordering;
mod purging;
mod random;
mod round_trip;
mod sample;
mod writing;

use crate::join::caught;
use semel_core::{BoxFuture, queue::Queue};

pub use contention::contended;
pub use purging::purge_takes_the_expired_executions_at_once;
pub use random::walk;

/// One rule of the suite.
pub struct Rule {
    /// The rule, as a sentence.
    pub name: &'static str,
    /// Panics if the rule does not hold for this queue.
    pub check: for<'a> fn(&'a dyn Queue) -> BoxFuture<'a, ()>,
}

macro_rules! rules {
    ($($module:ident::$rule:ident,)*) => {
        $(pub use $module::$rule;)*

        /// Every rule that [`all`] runs.
        pub const RULES: &[Rule] =
            &[$(Rule { name: stringify!($rule), check: |queue| Box::pin($rule(queue)) }),*];
    };
}

rules![
    accepting::a_new_execution_is_there_as_it_was_accepted,
    accepting::a_duplicate_is_shown_what_is_there_and_changes_nothing,
    accepting::of_several_with_one_id_in_a_batch_the_first_is_new,
    accepting::a_batch_is_answered_for_in_order,
    accepting::an_expired_execution_is_accepted_anew_under_a_higher_fence,
    accepting::one_that_is_accepted_claimed_is_its_holders_until_the_lease_lapses,
    accepting::one_that_is_accepted_ended_is_kept_and_never_handed_out,
    accepting::empty_batches_are_answered_with_nothing,
    accepting::the_largest_batch_is_taken,
    accepting::a_dropped_accept_happened_or_did_not,
    claiming::the_longest_due_are_handed_out_first,
    claiming::what_is_not_due_is_not_handed_out,
    claiming::each_function_has_its_own_limit_and_the_unnamed_get_nothing,
    claiming::what_is_handed_out_is_leased_and_its_attempt_counted,
    claiming::what_was_handed_out_is_not_handed_out_again,
    claiming::a_lapsed_lease_is_taken_over_and_every_attempt_counts,
    claiming::a_late_holder_that_nobody_superseded_completes,
    claiming::a_renewed_lease_is_respected,
    claiming::what_was_handed_out_is_found_by_its_holder,
    claiming::the_largest_demand_is_met,
    writing::the_current_fence_writes_and_gets_a_higher_one,
    writing::a_stale_fence_never_writes_to_an_execution,
    writing::a_fence_from_the_future_never_writes_to_an_execution,
    writing::a_change_of_what_is_not_there_leaves_no_trace,
    writing::the_changes_of_a_batch_are_independent,
    writing::of_two_changes_with_one_fence_in_a_batch_the_first_wins,
    writing::causes_are_accepted_with_a_change_that_is_won,
    writing::causes_of_a_change_that_is_lost_are_not_accepted,
    writing::a_cause_that_is_there_is_left_as_it_is,
    writing::a_cause_that_had_expired_is_accepted_anew,
    writing::an_event_can_be_edited_and_dropped,
    writing::a_dropped_write_happened_or_did_not,
    ordering::only_the_head_of_an_order_is_handed_out,
    ordering::the_sequence_is_that_of_acceptance,
    ordering::a_blocked_head_blocks_only_its_own_order,
    ordering::a_head_that_ended_makes_way,
    ordering::a_lapsed_head_is_taken_over_before_those_behind_it,
    ordering::a_redriven_one_takes_its_old_place,
    ordering::a_cause_with_an_order_stands_behind_the_others,
    ordering::causes_stand_in_the_order_of_their_changes,
    ordering::one_that_is_accepted_anew_goes_to_the_end,
    listing::what_is_not_there_is_not_found,
    listing::every_filter_finds_exactly_what_matches,
    listing::a_name_is_the_events_id_or_the_keys,
    listing::filters_follow_every_change,
    listing::pages_put_together_are_the_list,
    listing::paging_is_steady_while_things_change,
    listing::a_cursor_that_is_none_is_refused,
    counting::the_counters_follow_an_execution_through_its_life,
    counting::what_changes_nothing_counts_nothing,
    counting::functions_are_counted_apart,
    purging::an_expired_execution_is_shown_as_it_was_or_absent,
    purging::purge_never_takes_the_unfinished_doubts_or_the_unexpired,
    purging::purge_respects_the_moment_that_it_is_given,
    purging::purge_of_nothing_takes_no_execution,
    purging::fences_grow_over_purge_and_acceptance,
    purging::a_holder_from_before_a_purge_never_writes,
    round_trip::every_execution_comes_back_as_written,
    round_trip::extreme_executions_come_back_as_written,
    round_trip::large_events_come_back_byte_for_byte,
    round_trip::a_longer_execution_makes_way_for_a_shorter_one,
    naming::functions_that_look_alike_are_apart,
    naming::hostile_names_of_events_do_no_harm,
    naming::orders_that_look_alike_are_apart,
    contention::concurrent_accepts_have_one_winner,
    contention::concurrent_claimers_never_get_the_same,
    contention::concurrent_writes_have_one_winner,
    contention::crossing_batches_do_not_deadlock,
    random::a_random_walk_follows_the_model,
];

/// Runs every rule, and panics with the names of those that do not hold.
pub async fn all(queue: &dyn Queue) {
    let mut broken = Vec::new();
    for rule in RULES {
        if let Err(message) = caught((rule.check)(queue)).await {
            broken.push(format!("  {}: {message}", rule.name));
        }
    }
    let (count, of) = (broken.len(), RULES.len());
    assert!(broken.is_empty(), "{count} of {of} rules for queues do not hold:\n{}", broken.join("\n"));
}
