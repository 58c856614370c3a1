//! SNS asks before it sends.
//!
//! 1. A subscription is confirmed by fetching the URL that came with it: only where the message was signed by SNS, for a
//!    topic that is configured (`auth = "sns"`), from SNS itself.
//! 2. Where it cannot be fetched now, that is `503`, and SNS asks again: `401` would be the last that is heard of it.
//! 3. That one ended is noted, and nothing is fetched: that would undo it.

use super::{problems::SUBSCRIPTION_UNCONFIRMED, receive::Refusal, source::Source};
use crate::serve::Answer;
use http::Response;
use semel_core::sabotage::is_on;
use semel_events::format::sns::{Change, Subscription};
use std::time::Duration;
use tracing::{info, warn};

/// How much of the answer is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// When SNS may ask again for what could not be fetched.
const AGAIN: Duration = Duration::from_secs(20);

/// Answers a request about a subscription.
pub(super) async fn answer(
    source: &Source,
    subscription: &Subscription,
) -> Result<Response<Answer>, Refusal> {
    let (topic, path) = (&*subscription.topic, &*source.path);
    let Some(fetch) = source.auth.confirms() else {
        warn!(
            topic,
            source = path,
            "a subscription was not confirmed: only `auth = \"sns\"` confirms its topics"
        );
        return Err(Refusal::Unknown);
    };
    match subscription.change {
        Change::Ended => info!(topic, source = path, "a subscription has ended"),
        Change::Asked => match fetch.fetch(&subscription.url, ANSWER_BYTES_MAX).await {
            Ok(_) => info!(topic, source = path, "a subscription was confirmed"),
            Err(error) => {
                warn!(topic, source = path, error, "a subscription could not be confirmed");
                let is_final = is_on("ingest_unconfirmed_is_refused");
                return Err(if is_final {
                    Refusal::Unknown
                } else {
                    Refusal::After(SUBSCRIPTION_UNCONFIRMED, AGAIN)
                });
            }
        },
    }
    Ok(Response::new(Answer::empty()))
}
