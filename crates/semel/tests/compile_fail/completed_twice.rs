//! A lease is finished once.
use semel::Lease;

async fn twice(lease: Lease) {
    lease.complete(&1).await.ok();
    lease.complete(&2).await.ok();
}

fn main() {}
