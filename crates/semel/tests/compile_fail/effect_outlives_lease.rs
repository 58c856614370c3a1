//! An effect runs under its call's lease, and not after it.
use semel::{AtMostOnce, Lease};

fn kept(lease: Lease) -> AtMostOnce<'static> {
    lease.effect("email").at_most_once()
}

fn main() {}
