//! A call that is described and not run does nothing.
#![deny(unused_must_use)]
use semel::{Lease, Once, Provider};

fn ignored(once: &Once, lease: &Lease) {
    once.call("pay", 1);
    lease.effect("charge");
    lease.effect("charge").keyed(Provider::STRIPE);
}

fn main() {}
