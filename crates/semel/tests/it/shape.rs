//! The API in the situations that users are in: what is spawned must be `Send`, what is inferred must be
//! inferable.

use semel::{BoxFuture, Error, HandlerError, Lease, Once, Provider};
use std::sync::Arc;

struct Mailer;
impl Mailer {
    async fn send(&self, to: &str) -> Result<u32, std::io::Error> {
        tokio::task::yield_now().await;
        Ok(to.len() as u32)
    }
}

/// Boxed behind a trait, with borrowed arguments, as web frameworks do.
trait Handler {
    fn handle<'a>(&'a self, once: &'a Once, id: &'a str) -> BoxFuture<'a, Result<u32, Error>>;
}

impl Handler for Mailer {
    fn handle<'a>(&'a self, once: &'a Once, id: &'a str) -> BoxFuture<'a, Result<u32, Error>> {
        Box::pin(async move {
            once.call("boxed", id)
                .run(async |lease| {
                    assert_eq!(lease.attempt(), 1);
                    Ok(self.send(id).await? + "5".parse::<u32>()?)
                })
                .await
        })
    }
}

async fn by_reference(once: &Once, mailer: &Mailer, id: &str) -> Result<u32, Error> {
    once.call("direct", id).run(async |_| Ok(mailer.send(id).await?)).await
}

async fn named_handler(lease: &Lease) -> Result<u32, HandlerError> {
    tokio::task::yield_now().await;
    Ok(lease.attempt())
}

#[tokio::test]
async fn a_call_can_be_spawned_boxed_and_borrowed_from() {
    let once = Once::memory();
    let mailer = Arc::new(Mailer);
    let spawned = tokio::spawn({
        let (once, mailer) = (once.clone(), Arc::clone(&mailer));
        async move {
            let mut sent = 0;
            let id = "evt-1".to_owned();
            let direct = by_reference(&once, &mailer, &id).await?;
            let moved = id.clone();
            let borrowed = once
                .call("spawned", &id)
                .run(async |_| {
                    sent += mailer.send(&moved).await?;
                    Ok(sent)
                })
                .await?;
            let named = once.call("named", &id).run(named_handler).await?;
            Ok::<_, Error>((direct, borrowed, named))
        }
    });
    assert_eq!(spawned.await.unwrap().unwrap(), (5, 5, 1));
    let boxed = tokio::spawn(async move { mailer.handle(&once, "evt-2").await });
    assert_eq!(boxed.await.unwrap().unwrap(), 10);
}

#[test]
fn a_call_is_small_enough_to_be_moved_about() {
    let once = Once::memory();
    let size = size_of_val(&once.call("small", 1).run(async |_| Ok(())));
    assert!(size <= SIZE_MAX, "the future of a call has {size} bytes");
    let with_effects = size_of_val(&once.call("small", 1).run(async |lease| {
        lease.effect("charge").keyed(Provider::STRIPE).run(async |_| Ok::<_, HandlerError>(())).await?;
        lease.effect("email").at_most_once().run(async || Ok::<_, HandlerError>(())).await?;
        Ok(())
    }));
    assert!(with_effects <= SIZE_MAX + 2_048, "the future of a call with effects has {with_effects} bytes");
}

/// What a handler's own future does not count to.
const SIZE_MAX: usize = 4_096;
