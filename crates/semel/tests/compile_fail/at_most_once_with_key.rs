//! Only a keyed effect has a key to send: without a provider that remembers it, it would promise nothing.
use semel::{HandlerError, IdempotencyKey, Lease};

async fn mail(lease: &Lease) {
    let effect = lease.effect("email").at_most_once();
    effect.run(async |_key: IdempotencyKey| Ok::<_, HandlerError>(())).await.ok();
}

fn main() {}
