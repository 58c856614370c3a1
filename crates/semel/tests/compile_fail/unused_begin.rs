//! What a claim says must be looked at: it may be a lease.
#![deny(unused_must_use)]
use semel::Once;

async fn ignored(once: &Once) -> Result<(), semel::Error> {
    once.call("pay", 1).begin().await?;
    Ok(())
}

fn main() {}
