//! An AWS Lambda function that charges for orders, once for each.
//!
//! In Lambda it is what it looks like: `main` runs the function. Its records are in DynamoDB there:
//!
//! ```ignore
//! let config = aws_config::load_from_env().await;
//! let store = DynamoStore::new(aws_sdk_dynamodb::Client::new(&config), "orders-idempotency");
//! let once = Once::new(store);
//! ```
//!
//! Started by hand, it plays the platform itself: it starts a runtime API, and itself as the function, with its records on
//! disk. It delivers orders as event sources do, kills the function half-way, and checks what the bank saw.
//!
//! ```sh
//! cargo run -p semel --example lambda_orders --features lambda
//! ```

use lambda_runtime::LambdaEvent;
use semel::{
    HandlerError, OnBusy, Once, Provider,
    lambda::{self, NamedError, Pick},
};
use semel_testkit::lambda::{Answer, Invocation, RuntimeApi};
use serde::{Deserialize, Serialize};
use std::{
    env, fs,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Where the function keeps its records, and the bank its books.
const DIRECTORY: &str = "ORDERS_DIRECTORY";

#[derive(Deserialize)]
struct Order {
    id: String,
    cents: u32,
}

#[derive(Serialize)]
struct Receipt {
    order: String,
    charge: String,
}

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    match (env::var("AWS_LAMBDA_RUNTIME_API"), env::var(DIRECTORY)) {
        (Ok(_), Ok(directory)) => function(Path::new(&directory)).await,
        (Ok(_), Err(_)) => Err(format!("`{DIRECTORY}` does not say where the records are").into()),
        (Err(_), _) => platform().await,
    }
}

/// The function, as Lambda runs it.
async fn function(directory: &Path) -> Result<(), lambda_runtime::Error> {
    let once = Once::builder().on_busy(OnBusy::Reject).open(directory.join("records")).await?;
    let bank = Bank(directory.join("bank"));
    let orders = lambda::events(once, Pick::event_id()).handler(async |event: LambdaEvent<Order>, lease| {
        let order = event.payload;
        if order.cents > 100_000 {
            return Err(HandlerError::fatal(NamedError::new("CardDeclined", "no card has so much on it")));
        }
        let charge = lease.effect("charge").keyed(Provider::STRIPE);
        let charge = charge.run(async |key| bank.charge(&order, key.as_str())).await?;
        if order.id == "evt-crash" && lease.attempt() == 1 {
            tell("half-way");
            std::future::pending::<()>().await;
        }
        Ok(Receipt { order: order.id, charge })
    });
    lambda_runtime::run(orders).await
}

/// Tells whoever started this process.
fn tell(what: &str) {
    // Nobody has to listen.
    let _unheard = io::stderr().write_all(format!("{what}\n").as_bytes());
}

/// A bank whose books outlive whoever charges.
struct Bank(PathBuf);

impl Bank {
    fn charge(&self, order: &Order, key: &str) -> io::Result<String> {
        let mut books = fs::OpenOptions::new().create(true).append(true).open(&self.0)?;
        writeln!(books, "{} {} cents {key}", order.id, order.cents)?;
        Ok(format!("ch_{}", order.id))
    }

    fn books(&self) -> io::Result<Vec<String>> {
        Ok(fs::read_to_string(&self.0)?.lines().map(str::to_owned).collect())
    }
}

/// What Lambda does, on this machine.
async fn platform() -> Result<(), lambda_runtime::Error> {
    let directory = tempfile::tempdir()?;
    let api = RuntimeApi::start().await;
    let bank = Bank(directory.path().join("bank"));
    let mut running = start(&api, directory.path())?;

    let order = Invocation::new(r#"{"id": "evt-1", "cents": 1200}"#);
    let receipt = Answer::Response(r#"{"order":"evt-1","charge":"ch_evt-1"}"#.to_owned());
    for _delivery in 0..3 {
        assert_eq!(api.invoke(order.clone()).await, receipt);
    }
    println!("evt-1, delivered three times: {} charge", bank.books()?.len());
    assert_eq!(bank.books()?.len(), 1);

    let dear = Invocation::new(r#"{"id": "evt-2", "cents": 1200000}"#);
    for _delivery in 0..2 {
        assert_eq!(api.invoke(dear.clone()).await.error_type(), "CardDeclined");
    }
    assert_eq!(api.invoke(r#"{"id": "evt-1", "cents": 1}"#).await.error_type(), "Semel.Mismatch");
    assert_eq!(api.invoke(r#"{"cents": 1}"#).await.error_type(), "Semel.KeyRequired");
    println!("a declined card, another amount under the same id, and no id at all: refused, each time");

    let crash = Invocation::new(r#"{"id": "evt-crash", "cents": 700}"#).timeout(Duration::from_mins(5));
    let mut sent = api.send(crash.clone());
    sent.taken().await;
    let said = BufReader::new(running.stderr.take().ok_or("the function has no voice")?).lines();
    let half_way = said.map_while(Result::ok).find(|line| line == "half-way");
    assert_eq!(half_way.as_deref(), Some("half-way"));
    running.kill()?;
    running.wait()?;
    println!("evt-crash: charged, and the function killed before it could answer");

    let mut running = start(&api, directory.path())?;
    let receipt = Answer::Response(r#"{"order":"evt-crash","charge":"ch_evt-crash"}"#.to_owned());
    assert_eq!(api.invoke(crash).await, receipt);
    running.kill()?;
    running.wait()?;
    let books = bank.books()?;
    println!("evt-crash, delivered again to another process: {} charges in all\n", books.len());
    println!("{}", books.join("\n"));
    assert_eq!(books.len(), 2, "each order was charged once");
    Ok(())
}

/// Starts this program as the function.
fn start(api: &RuntimeApi, directory: &Path) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .envs(api.environment("orders"))
        .env(DIRECTORY, directory)
        .stderr(Stdio::piped())
        .spawn()
}
