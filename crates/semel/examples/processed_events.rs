//! A consumer that processes each event once, and remembers it for 30 days.
//!
//! Events arrive twice, all at once, and again after a restart, as they do from every event source. The program
//! prints what happened, and checks it.
//!
//! Run it: `cargo run --example processed_events`

use semel::{HandlerError, Once, processed::ProcessedEvents};
use std::{
    error::Error,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

/// What the outside world sees of us: which event each invoice was written for.
type Invoices = Arc<Mutex<Vec<String>>>;

async fn write_invoice(invoices: &Invoices, event: &str) -> Result<usize, HandlerError> {
    tokio::task::yield_now().await;
    let mut invoices = invoices.lock().expect("nobody panics");
    invoices.push(event.to_owned());
    Ok(invoices.len())
}

async fn open(directory: &Path) -> Result<ProcessedEvents, semel::Error> {
    let once = Once::open(directory).await?;
    // 30 days is also what it does unless told; event sources redeliver for days, so remember for longer.
    Ok(ProcessedEvents::new(once, "billing").retention(Duration::from_hours(30 * 24)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let events = open(directory.path()).await?;
    let invoices = Invoices::default();

    // Delivered twice.
    let first = events.process_once("evt-1", async || write_invoice(&invoices, "evt-1").await).await?;
    let again = events.process_once("evt-1", async || write_invoice(&invoices, "evt-1").await).await?;
    println!("evt-1: invoice {first:?}, delivered again: {again:?}");
    assert_eq!((first, again), (Some(1), None));

    // Delivered ten times at once: one writes, the others wait for it.
    let deliveries: Vec<_> = (0..10).map(|_| deliver(events.clone(), invoices.clone(), "evt-2")).collect();
    let mut written = 0;
    for delivery in deliveries {
        written += usize::from(delivery.await?.is_some());
    }
    println!("evt-2: delivered ten times at once, {written} invoice");
    assert_eq!(written, 1);

    // An event whose processing failed is not processed: the next delivery does it.
    let jammed = events.process_once("evt-3", async || Err::<(), _>("the printer is jammed".into())).await;
    println!("evt-3: {}", jammed.expect_err("it failed"));
    assert!(!events.exists("evt-3").await?);
    events.process_once("evt-3", async || write_invoice(&invoices, "evt-3").await).await?;

    // What another system has processed before we came can be marked.
    events.mark_processed("evt-0", Duration::from_hours(24)).await?;
    assert_eq!(events.process_once("evt-0", async || write_invoice(&invoices, "evt-0").await).await?, None);

    // Another life of the process remembers.
    drop(events);
    let events = open(directory.path()).await?;
    for event in ["evt-0", "evt-1", "evt-2", "evt-3"] {
        assert!(events.exists(event).await?);
        assert_eq!(events.process_once(event, async || write_invoice(&invoices, event).await).await?, None);
    }
    let invoices = invoices.lock().expect("nobody panics").clone();
    println!("invoices: {invoices:?}");
    assert_eq!(invoices, ["evt-1", "evt-2", "evt-3"]);
    Ok(())
}

/// One delivery, on a task of its own.
fn deliver(
    events: ProcessedEvents,
    invoices: Invoices,
    event: &'static str,
) -> tokio::task::JoinHandle<Option<usize>> {
    tokio::spawn(async move {
        let process = async || write_invoice(&invoices, event).await;
        events.process_once(event, process).await.expect("the store is there")
    })
}
