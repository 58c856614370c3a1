//! A result must be replayable, and borrow nothing.
use semel::Once;

async fn pay(once: &Once) {
    once.call("pay", 1).run(async |_| Ok("a borrowed text")).await.ok();
}

fn main() {}
