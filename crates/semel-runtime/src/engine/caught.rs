//! A future whose panic is a value.

use semel_core::sabotage::is_on;
use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// Runs the future; a panic in it is its end, and told as text.
///
/// What it shared with others may be half done, as after every panic: a lock that it held is poisoned.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    std::future::poll_fn(move |context| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) if is_on("panic_not_caught") => std::panic::resume_unwind(panic),
            Err(panic) => Poll::Ready(Err(said(panic.as_ref()))),
        }
    })
    .await
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a word".to_owned())
}
