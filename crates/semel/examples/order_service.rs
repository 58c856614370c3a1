//! An order service that charges each order once, however its events arrive.
//!
//! A tower stack: the idempotent layer on top, an ordinary handler below. The handler has three effects, each
//! of another class: the bank remembers idempotency keys, an e-mail must not be sent twice, and writing a row
//! twice does no harm. The program then delivers orders the way event sources do (twice, all at once, and to
//! processes that die half way), prints what happened, and checks it.
//!
//! Run it: `cargo run --example order_service`

use semel::service::{IdempotentLayer, Leased, ServiceError};
use semel::{Classify, ErrorKind, HandlerError, IdempotencyKey, Once, Provider};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    /// From the event: the same for every delivery of it.
    event: String,
    customer: String,
    cents: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Receipt {
    charge: String,
    cents: u32,
}

/// What the service works with.
#[derive(Default)]
struct Shop {
    bank: Bank,
    mailer: Mailer,
    /// Sales by event: writing one twice is the same as writing it once.
    sales: Mutex<BTreeMap<String, u32>>,
}

/// The handler: an ordinary function of a request and the lease that it runs under.
async fn process(shop: Arc<Shop>, leased: Leased<Order>) -> Result<Receipt, semel::Error> {
    let Leased { request: order, lease, .. } = leased;

    // Sent again after a crash, with the same key: the bank knows it.
    let charge = lease
        .effect("charge")
        .keyed(Provider::STRIPE)
        .run(async |key| shop.bank.charge(&order, &key).await)
        .await?;

    // Not sent again after a crash: who cannot tell whether a customer got an e-mail does not send a second.
    lease.effect("email").at_most_once().run(async || shop.mailer.confirm(&order).await).await?;

    let sale = lease.effect("sale").at_least_once();
    sale.run(async || Ok::<_, HandlerError>(shop.record_sale(&order))).await?;

    Ok(Receipt { charge, cents: order.cents })
}

type Refused = ServiceError<semel::Error>;

/// The stack: any tower middleware can go above or below the layer.
fn stack(
    once: Once,
    shop: Arc<Shop>,
) -> impl Service<Order, Response = Receipt, Error = Refused, Future: Send> + Clone + Send + 'static {
    let layer = IdempotentLayer::new(once, "process-order")
        .key(|order: &Order| order.event.clone())
        .payload()
        .with_lease();
    ServiceBuilder::new().layer(layer).service(service_fn(move |leased| process(Arc::clone(&shop), leased)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    // A short lease, so that a crash is taken over within the patience of whoever watches this.
    let once = Once::builder().lease(Duration::from_millis(500)).open(directory.path()).await?;
    let shop = Arc::new(Shop::default());
    let orders = stack(once, Arc::clone(&shop));

    one_after_the_other(&orders, &shop).await?;
    all_at_once(&orders, &shop).await?;
    crash_after_the_charge(&orders, &shop).await?;
    crash_before_the_charge(&orders, &shop).await?;
    another_order_under_the_same_event(&orders).await?;
    a_declined_card(&orders, &shop).await?;

    let sales = shop.sales.lock().expect("nobody panics").clone();
    println!("\nsales: {sales:?}");
    assert_eq!(sales.len(), 4, "four orders went through");
    Ok(())
}

async fn one_after_the_other(orders: &impl OrderService, shop: &Shop) -> Result<(), Box<dyn Error>> {
    let order = order("evt-1", 1_200);
    let first = orders.clone().oneshot(order.clone()).await?;
    for _duplicate in 0..3 {
        assert_eq!(orders.clone().oneshot(order.clone()).await?, first);
    }
    shop.report("delivered four times, one after the other", &order);
    assert_eq!((shop.bank.charges_of(&order), shop.mailer.sent_to(&order)), (1, 1));
    Ok(())
}

async fn all_at_once(orders: &impl OrderService, shop: &Shop) -> Result<(), Box<dyn Error>> {
    let order = order("evt-2", 3_400);
    let tasks: Vec<_> = (0..10).map(|_| tokio::spawn(orders.clone().oneshot(order.clone()))).collect();
    let mut receipts = Vec::new();
    for task in tasks {
        receipts.push(task.await??);
    }
    assert!(receipts.windows(2).all(|pair| pair[0] == pair[1]), "everybody got the same receipt");
    shop.report("delivered ten times at once", &order);
    assert_eq!((shop.bank.charges_of(&order), shop.mailer.sent_to(&order)), (1, 1));
    Ok(())
}

/// The process dies when the bank has charged, and before its answer arrives.
async fn crash_after_the_charge(orders: &impl OrderService, shop: &Shop) -> Result<(), Box<dyn Error>> {
    let order = order("evt-3", 5_600);
    shop.bank.hang_up_after(&order);
    crash(orders, &order).await;
    let receipt = redeliver(orders, &order).await?;
    shop.report("crashed when it was charged, delivered again", &order);
    assert_eq!(shop.bank.charges_of(&order), 1, "charged once: {receipt:?}");
    Ok(())
}

/// The process dies when the request has not reached the bank yet.
async fn crash_before_the_charge(orders: &impl OrderService, shop: &Shop) -> Result<(), Box<dyn Error>> {
    let order = order("evt-4", 7_800);
    shop.bank.hang_up_before(&order);
    crash(orders, &order).await;
    redeliver(orders, &order).await?;
    shop.report("crashed before it was charged, delivered again", &order);
    assert_eq!((shop.bank.charges_of(&order), shop.mailer.sent_to(&order)), (1, 1));
    Ok(())
}

async fn another_order_under_the_same_event(orders: &impl OrderService) -> Result<(), Box<dyn Error>> {
    let refused = orders.clone().oneshot(order("evt-1", 999_999)).await.expect_err("it is another order");
    println!("another order under the same event: {refused}");
    assert_eq!(refused.semel().map(semel::Error::kind), Some(ErrorKind::Mismatch));
    Ok(())
}

async fn a_declined_card(orders: &impl OrderService, shop: &Shop) -> Result<(), Box<dyn Error>> {
    let order = Order { customer: "broke@example.com".to_owned(), ..order("evt-5", 100) };
    let first = orders.clone().oneshot(order.clone()).await.expect_err("the card is declined");
    let again = orders.clone().oneshot(order.clone()).await.expect_err("it was declined");
    println!("a declined card: {first}; delivered again: {again}");
    let kind = again.semel().map(semel::Error::kind);
    assert!(matches!(kind, Some(ErrorKind::FailedBefore { .. })), "the failure is kept: {kind:?}");
    assert_eq!(shop.bank.requests_of(&order), 1, "the bank is not asked again");
    Ok(())
}

/// Delivers an order to a process that is killed while it works on it.
async fn crash(orders: &impl OrderService, order: &Order) {
    let attempt = tokio::time::timeout(Duration::from_millis(50), orders.clone().oneshot(order.clone()));
    assert!(attempt.await.is_err(), "it was still at work");
}

/// Delivers until there is an answer, as an event source does.
async fn redeliver(orders: &impl OrderService, order: &Order) -> Result<Receipt, Refused> {
    loop {
        match orders.clone().oneshot(order.clone()).await {
            Err(ServiceError::Semel(error)) if error.is_transient() => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            answer => return answer,
        }
    }
}

/// What the deliveries above need to know of the stack.
trait OrderService:
    Service<Order, Response = Receipt, Error = Refused, Future: Send> + Clone + Send + 'static
{
}

impl<S> OrderService for S where
    S: Service<Order, Response = Receipt, Error = Refused, Future: Send> + Clone + Send + 'static
{
}

fn order(event: &str, cents: u32) -> Order {
    Order { event: event.to_owned(), customer: "ann@example.com".to_owned(), cents }
}

impl Shop {
    /// Writes the sale's row, and tells how many there are.
    fn record_sale(&self, order: &Order) -> usize {
        let mut sales = self.sales.lock().expect("nobody panics");
        sales.insert(order.event.clone(), order.cents);
        sales.len()
    }

    fn report(&self, what: &str, order: &Order) {
        let (requests, charges) = (self.bank.requests_of(order), self.bank.charges_of(order));
        let emails = self.mailer.sent_to(order);
        println!("{what}: {requests} requests to the bank, {charges} charge, {emails} e-mail");
    }
}

/// Stands in for a payment provider that honours idempotency keys.
#[derive(Default)]
struct Bank(Mutex<Books>);

#[derive(Default)]
struct Books {
    /// Charges by idempotency key.
    charges: HashMap<String, (String, Order)>,
    /// How often each event's charge was asked for.
    requests: HashMap<String, u32>,
    hangs_before: Option<String>,
    hangs_after: Option<String>,
}

impl Bank {
    async fn charge(&self, order: &Order, key: &IdempotencyKey) -> Result<String, HandlerError> {
        if self.hangs(|books| &mut books.hangs_before, order) {
            std::future::pending::<()>().await;
        }
        if order.customer.starts_with("broke") {
            self.count(order);
            return Err("the card was declined").fatal();
        }
        self.count(order);
        let charge = self.book(order, key);
        if self.hangs(|books| &mut books.hangs_after, order) {
            std::future::pending::<()>().await;
        }
        Ok(charge)
    }

    /// A known key gets the charge it got before.
    fn book(&self, order: &Order, key: &IdempotencyKey) -> String {
        let charges = &mut self.books().charges;
        let next = format!("ch_{}", charges.len() + 1);
        charges.entry(key.to_string()).or_insert_with(|| (next, order.clone())).0.clone()
    }

    fn count(&self, order: &Order) {
        *self.books().requests.entry(order.event.clone()).or_default() += 1;
    }

    /// The line breaks once, before the request arrives.
    fn hang_up_before(&self, order: &Order) {
        self.books().hangs_before = Some(order.event.clone());
    }

    /// The line breaks once, after the request was carried out.
    fn hang_up_after(&self, order: &Order) {
        self.books().hangs_after = Some(order.event.clone());
    }

    fn hangs(&self, which: impl Fn(&mut Books) -> &mut Option<String>, order: &Order) -> bool {
        which(&mut self.books()).take_if(|event| *event == order.event).is_some()
    }

    fn requests_of(&self, order: &Order) -> u32 {
        self.books().requests.get(&order.event).copied().unwrap_or(0)
    }

    fn charges_of(&self, order: &Order) -> usize {
        self.books().charges.values().filter(|(_, charged)| charged.event == order.event).count()
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.0.lock().expect("nobody panics")
    }
}

/// Stands in for a mail server, which knows no keys.
#[derive(Default)]
struct Mailer(Mutex<Vec<String>>);

impl Mailer {
    async fn confirm(&self, order: &Order) -> Result<(), HandlerError> {
        tokio::task::yield_now().await;
        self.0.lock().expect("nobody panics").push(order.event.clone());
        Ok(())
    }

    fn sent_to(&self, order: &Order) -> usize {
        self.0.lock().expect("nobody panics").iter().filter(|event| **event == order.event).count()
    }
}
