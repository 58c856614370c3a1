//! Forgetting what has expired.
//!
//! 1. About every [`EVERY`], in small batches, with a pause after each: nobody who waits for the queue notices.
//! 2. Nodes do it at different moments, by jitter.

use super::shared::{Engine, Stage};
use std::{sync::Arc, time::Duration};

/// How often.
pub(crate) const EVERY: Duration = Duration::from_mins(1);
/// How much at once.
pub(crate) const BATCH: u32 = 256;
/// How long the queue is left alone after each batch.
const PAUSE: Duration = Duration::from_millis(20);

/// Purges what has expired, until the runtime stops.
pub(crate) async fn purge(engine: Arc<Engine>) {
    while engine.stage() == Stage::Running {
        let jitter = f64::from(engine.chance.jitter().0) / f64::from(u32::MAX);
        engine.clock.sleep(EVERY.mul_f64(0.5 + jitter)).await;
        loop {
            match engine.queue.purge(engine.clock.now(), BATCH).await {
                Ok(purged) if purged < BATCH => break,
                Ok(_) => engine.clock.sleep(PAUSE).await,
                Err(error) => {
                    tracing::warn!(%error, "expired executions could not be purged");
                    break;
                }
            }
        }
    }
}
