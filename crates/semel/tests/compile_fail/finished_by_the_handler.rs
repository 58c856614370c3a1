//! A handler does not own its lease: what it returns finishes it.
use semel::Once;

async fn both(once: &Once) {
    once.call("pay", 1)
        .run(async |lease| {
            lease.complete(&1).await?;
            Ok(2)
        })
        .await
        .ok();
}

fn main() {}
