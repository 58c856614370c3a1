//! There is one lease.
use semel::Lease;

fn clone(lease: &Lease) -> Lease {
    lease.clone()
}

fn main() {}
