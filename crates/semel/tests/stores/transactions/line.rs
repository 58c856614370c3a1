//! A transaction's line breaks at every message in turn: the sum is exact, also where the reply to COMMIT is lost.

use super::{COUNT, CREATE, INSERT, TABLE, Trouble, VIEWS};
use semel::{How, Once, store::postgres::PostgresStore};
use semel_testkit::{Fault, FaultProxy, servers};

/// More messages than any delivery needs.
const MESSAGES_MAX: u64 = 40;
/// More deliveries than any event needs.
const DELIVERIES_MAX: u32 = 10;
/// BEGIN, the claim, the count, the completion, COMMIT.
const MESSAGES_MIN: u64 = 5;

async fn deliver(store: &PostgresStore, once: &Once, event: u64) -> Result<How, Trouble> {
    let mut tx = store.begin().await?;
    let counted = once.call("view", event).run_outcome_in(&mut tx, async |tx| {
        sqlx::query(COUNT).execute(&mut **tx).await?;
        Ok(())
    });
    let how = counted.await?.how;
    tx.commit().await?;
    Ok(how)
}

/// Delivers an event until that comes through.
async fn deliver_until_done(store: &PostgresStore, once: &Once, event: u64) -> (How, u32) {
    let mut last = None;
    for delivery in 1..=DELIVERIES_MAX {
        match deliver(store, once, event).await {
            Ok(how) => return (how, delivery),
            Err(error) => last = Some(error),
        }
    }
    panic!("event {event} never came through: {last:?}");
}

/// A pool looks at what it gets back before it lets it be taken: that message is none of the next delivery's.
async fn until_it_is_back(store: &PostgresStore) {
    while store.pool().num_idle() == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_breaks_at_any_message_of_a_transaction_leaves_the_sum_exact() {
    let database = servers::postgres().await;
    let direct = PostgresStore::builder().table(TABLE).create().connect(&database.url).await.unwrap();
    for statement in [CREATE, INSERT] {
        sqlx::query(statement).execute(direct.pool()).await.unwrap();
    }
    let proxy = FaultProxy::before(&database.url).await;
    // One connection, so that each message is one of the delivery's own.
    let builder = PostgresStore::builder().table(TABLE).connections_max(1);
    let store = builder.connect(proxy.url()).await.unwrap();
    let once = Once::new(store.clone());
    let mut event = 0;
    let mut replayed = 0;
    for fault in [Fault::Refuse, Fault::Reset, Fault::CutReply] {
        let mut nth = 0;
        loop {
            // Without trouble, so that statements are prepared and the connection is there.
            event += 1;
            deliver_until_done(&store, &once, event).await;
            until_it_is_back(&store).await;
            (event, nth) = (event + 1, nth + 1);
            proxy.strike(nth, fault);
            let (how, deliveries) = deliver_until_done(&store, &once, event).await;
            let is_swept = proxy.heal();
            let views: u64 = sqlx::query_scalar::<_, i64>(VIEWS)
                .fetch_one(direct.pool())
                .await
                .unwrap()
                .try_into()
                .unwrap();
            assert_eq!(views, event, "{fault:?} at message {nth}: {how:?} after {deliveries} deliveries");
            replayed += u32::from(how == How::Replayed);
            if is_swept {
                assert!(nth > MESSAGES_MIN, "{fault:?}: only {nth} messages");
                break;
            }
            assert!(nth < MESSAGES_MAX, "{fault:?}: a delivery has more than {MESSAGES_MAX} messages");
        }
    }
    assert!(replayed > 0, "no reply to COMMIT was lost");
}
