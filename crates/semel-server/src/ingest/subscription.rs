//! SNS asks before it sends.
//!
//! 1. A subscription is confirmed by fetching the URL that came with it: only where the message was signed by SNS, for a
//!    topic that is configured (`auth = "sns"`), from SNS itself.
//! 2. That one ended is noted, and nothing is fetched: that would undo it.

use super::source::Source;
use crate::serve::Answer;
use http::Response;
use semel_events::format::sns::{Change, Subscription};
use tracing::{info, warn};

/// How much of the answer is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Answers a request about a subscription; nothing if it must not be confirmed.
pub(super) async fn answer(source: &Source, subscription: &Subscription) -> Option<Response<Answer>> {
    let (topic, path) = (&*subscription.topic, &*source.path);
    let Some(fetch) = source.auth.confirms() else {
        warn!(
            topic,
            source = path,
            "a subscription was not confirmed: only `auth = \"sns\"` confirms its topics"
        );
        return None;
    };
    match subscription.change {
        Change::Ended => info!(topic, source = path, "a subscription has ended"),
        Change::Asked => match fetch.fetch(&subscription.url, ANSWER_BYTES_MAX).await {
            Ok(_) => info!(topic, source = path, "a subscription was confirmed"),
            Err(error) => {
                warn!(topic, source = path, error, "a subscription could not be confirmed");
                return None;
            }
        },
    }
    Some(Response::new(Answer::empty()))
}
