//! Every store, with trouble on the line.
//!
//! Each store has a line: itself through a proxy that breaks when it is told to, and a second one of its kind that
//! sees what is really there. Every check is a function over a line, and every store goes through all of them.

mod line;
mod outage;
mod strike;

/// The checks of a store behind a line.
macro_rules! checked {
    ($store:ident) => {
        mod $store {
            use super::{line, outage, strike};
            use crate::faults::race;
            use semel::Once;

            #[tokio::test(flavor = "multi_thread")]
            async fn a_connection_that_breaks_at_any_message_loses_and_doubles_nothing() {
                strike::broken_connections(&line::$store().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_reply_that_is_lost_is_recognised_as_ones_own() {
                strike::lost_replies(&line::$store().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_message_that_vanishes_is_noticed_in_bounded_time() {
                strike::vanished_messages(&line::$store().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_slow_line_changes_nothing() {
                strike::slow_line(&line::$store().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn nothing_runs_while_the_store_is_away() {
                outage::before_the_claim(&line::$store().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_completion_that_cannot_be_stored_is_not_called_a_success() {
                outage::before_the_completion(&line::$store().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_holder_that_was_cut_off_is_superseded() {
                outage::while_another_takes_over(&line::$store().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_thousand_way_race_for_one_key_has_one_winner() {
                let line = line::$store().await;
                // Each its own: callers that share a `Once` share their waits.
                race::for_one_key(|| Once::from_store(line.direct.clone())).await;
            }
        }
    };
}

#[cfg(feature = "dynamodb")]
checked!(dynamodb);
#[cfg(feature = "firestore")]
checked!(firestore);
#[cfg(feature = "nats")]
checked!(nats);
#[cfg(feature = "postgres")]
checked!(postgres);
#[cfg(feature = "redis")]
checked!(redis);
#[cfg(feature = "redis")]
checked!(valkey);
