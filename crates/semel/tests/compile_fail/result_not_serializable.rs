//! A result must be storable.
use semel::Once;

struct Receipt;

async fn pay(once: &Once) {
    once.call("pay", 1).run(async |_| Ok(Receipt)).await.ok();
}

fn main() {}
