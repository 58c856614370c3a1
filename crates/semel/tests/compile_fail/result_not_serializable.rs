//! A result must be storable.
use semel::Once;

struct Receipt;

fn pay(once: &Once) {
    drop(once.call("pay", 1).run(async |_| Ok(Receipt)));
}

fn main() {}
