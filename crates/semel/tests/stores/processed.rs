//! The simple form: which events were processed.

use semel::{
    ErrorKind, HandlerError, MemoryStore, Once,
    processed::{ProcessedEvents, RETENTION},
};
use semel_testkit::ManualClock;
use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

const DAY: Duration = Duration::from_hours(24);

fn on(clock: &ManualClock) -> ProcessedEvents {
    ProcessedEvents::new(Once::new(MemoryStore::with_clock(clock.arc())), "billing")
}

#[tokio::test]
async fn an_event_is_processed_once_and_then_exists() {
    let (events, runs) = (on(&ManualClock::new()), Cell::new(0));
    assert!(!events.exists("evt-1").await.unwrap());
    let process = async || {
        runs.set(runs.get() + 1);
        Ok(runs.get())
    };
    assert_eq!(events.process_once("evt-1", process).await.unwrap(), Some(1));
    assert_eq!(events.process_once("evt-1", process).await.unwrap(), None);
    assert!(events.exists("evt-1").await.unwrap());
    assert!(!events.exists("evt-2").await.unwrap());
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn an_event_is_remembered_for_thirty_days() {
    let clock = ManualClock::new();
    let events = on(&clock);
    assert_eq!(RETENTION, DAY * 30);
    events.process_once("evt-1", async || Ok(())).await.unwrap();
    clock.advance((DAY * 30).saturating_sub(Duration::from_millis(1)));
    assert!(events.exists("evt-1").await.unwrap());
    assert_eq!(events.process_once("evt-1", async || Ok(())).await.unwrap(), None);
    clock.advance(Duration::from_millis(1));
    assert!(!events.exists("evt-1").await.unwrap());
    assert_eq!(events.process_once("evt-1", async || Ok(())).await.unwrap(), Some(()));
}

#[tokio::test]
async fn a_mark_lasts_for_its_ttl_and_the_first_one_counts() {
    let clock = ManualClock::new();
    let events = on(&clock);
    assert!(events.mark_processed("evt-1", DAY).await.unwrap());
    assert!(!events.mark_processed("evt-1", DAY * 9).await.unwrap());
    assert_eq!(events.process_once("evt-1", async || Ok(())).await.unwrap(), None);
    clock.advance(DAY);
    assert!(!events.exists("evt-1").await.unwrap());
}

#[tokio::test]
async fn each_consumer_processes_an_event_once() {
    let once = Once::memory();
    for consumer in ["billing", "shipping"] {
        let events = ProcessedEvents::new(once.clone(), consumer);
        assert_eq!(events.process_once("evt-1", async || Ok(consumer)).await.unwrap(), Some(consumer));
    }
}

#[tokio::test]
async fn an_event_whose_function_failed_was_not_processed() {
    let events = on(&ManualClock::new());
    let failing = async || Err::<(), _>(HandlerError::retryable("the printer is jammed"));
    let error = events.process_once("evt-1", failing).await.unwrap_err();
    assert!(error.is_transient());
    assert!(!events.exists("evt-1").await.unwrap());
    assert_eq!(events.process_once("evt-1", async || Ok(2)).await.unwrap(), Some(2));
}

#[tokio::test]
async fn an_event_that_is_being_processed_does_not_exist_yet_and_cannot_be_marked() {
    let clock = ManualClock::new();
    let events = on(&clock);
    let inside = events.process_once("evt-1", async || {
        assert!(!events.exists("evt-1").await?);
        Ok(events.mark_processed("evt-1", DAY).await.unwrap_err().kind())
    });
    let kind = clock.drive(inside).await.unwrap().unwrap();
    assert!(matches!(kind, ErrorKind::InProgress { .. }), "{kind:?}");
}

#[tokio::test]
async fn a_missing_id_is_refused() {
    let events = on(&ManualClock::new());
    let error = events.process_once(None::<&str>, async || Ok(())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyRequired);
    assert_eq!(events.exists(" ").await.unwrap_err().kind(), ErrorKind::KeyRequired);
}

/// The documentation says that asking and marking is racy. This is the race, and its remedy.
#[tokio::test]
async fn a_hundred_deliveries_at_once_are_many_by_asking_and_one_by_processing_once() {
    let events = ProcessedEvents::new(Once::memory(), "billing");
    let (by_asking, by_processing) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let deliveries: Vec<_> = (0..100)
        .map(|_| {
            let (events, asked, processed) = (events.clone(), by_asking.clone(), by_processing.clone());
            tokio::spawn(async move {
                if !events.exists("racy").await.unwrap() {
                    tokio::task::yield_now().await;
                    asked.fetch_add(1, Ordering::Relaxed);
                    events.mark_processed("racy", DAY).await.unwrap();
                }
                let process = async || {
                    tokio::task::yield_now().await;
                    processed.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                };
                events.process_once("safe", process).await.unwrap();
            })
        })
        .collect();
    for delivery in deliveries {
        delivery.await.unwrap();
    }
    assert_eq!(by_asking.load(Ordering::Relaxed), 100, "all had asked before one had marked");
    assert_eq!(by_processing.load(Ordering::Relaxed), 1);
}
