//! A lease is lent to the handler; it cannot be kept.
use semel::{Lease, Once};

async fn escape(once: &Once) {
    let mut kept: Option<&Lease> = None;
    once.call("pay", 1)
        .run(async |lease| {
            kept = Some(lease);
            Ok(())
        })
        .await
        .ok();
    drop(kept);
}

fn main() {}
