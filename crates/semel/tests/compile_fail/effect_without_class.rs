//! An effect cannot be run before somebody says what an interruption means for it.
use semel::{HandlerError, Lease};

async fn charge(lease: &Lease) {
    lease.effect("charge").run(async || Ok::<_, HandlerError>(())).await.ok();
}

fn main() {}
