//! Everything that a person can get wrong: a typed error that says what to do, and nothing runs.

use super::{key, run, set_for_database, store};
use semel::{ErrorKind, Once, Store, StoreError, StoreErrorKind, store::postgres::PostgresStore};
use semel_testkit::servers;
use sqlx::postgres::PgPoolOptions;
use std::time::Duration;

fn check(error: &StoreError, kind: StoreErrorKind, remedy: &str) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(remedy), "`{error}` does not say `{remedy}`");
}

async fn refused(url: &str) -> StoreError {
    PostgresStore::connect(url).await.unwrap_err()
}

#[tokio::test]
async fn what_cannot_be_connected_to_is_told_apart() {
    let database = servers::postgres().await;
    let (_, rest) = database.url.split_once("://").unwrap();
    let (_, host) = rest.split_once('@').unwrap_or(("", rest));
    let misconfigured = StoreErrorKind::Misconfigured;
    check(&refused("not a url").await, misconfigured, "postgres://user:password@host/database");
    check(
        &refused(&format!("postgres://nobody:wrong@{host}")).await,
        misconfigured,
        "the user and the password",
    );
    let missing = database.url.replace("/semel_", "/missing_");
    check(&refused(&missing).await, misconfigured, "no such database");
    let silent = refused("postgres://127.0.0.1:1/nothing").await;
    check(&silent, StoreErrorKind::Unavailable, "could not be reached");
}

#[tokio::test]
async fn a_wrong_password_is_told() {
    let (store, database) = store().await;
    let asked = "SELECT rolpassword IS NOT NULL FROM pg_authid WHERE rolname = current_user";
    let has_password: bool = sqlx::query_scalar(asked).fetch_one(store.pool()).await.unwrap();
    let (scheme, rest) = database.url.split_once("://").unwrap();
    let (user, host) = rest.split_once('@').unwrap();
    if !has_password || !user.contains(':') {
        return; // The server lets everybody in: there is no wrong password.
    }
    let (user, _) = user.split_once(':').unwrap();
    let error = refused(&format!("{scheme}://{user}:wrong@{host}")).await;
    check(&error, StoreErrorKind::Misconfigured, "the user and the password");
    assert!(!format!("{error}").contains("wrong@"), "the password is not for logs");
}

#[tokio::test]
async fn a_missing_table_is_told_with_the_remedy() {
    let database = servers::postgres().await;
    let error = refused(&database.url).await;
    check(&error, StoreErrorKind::Misconfigured, "PostgresStore::builder().create()");
    let error = PostgresStore::builder().schema("nowhere").create().connect(&database.url).await.unwrap_err();
    check(&error, StoreErrorKind::Misconfigured, "missing");
}

#[tokio::test]
async fn a_table_that_vanished_runs_nothing() {
    let (store, _database) = store().await;
    run(&store, "DROP TABLE semel_records").await;
    let call =
        Once::new(store).call("pay", 1).run(async |_| -> Result<(), _> { panic!("it ran unprotected") });
    let error = call.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    check(error.find::<StoreError>().unwrap(), StoreErrorKind::Misconfigured, "the table is missing");
}

#[tokio::test]
async fn another_schema_version_is_told_apart() {
    let (store, database) = store().await;
    run(&store, "UPDATE semel_records_meta SET version = 99").await;
    check(&refused(&database.url).await, StoreErrorKind::Misconfigured, "upgrade Semel");
    let creating = PostgresStore::builder().create();
    let error = creating.clone().connect(&database.url).await.unwrap_err();
    check(&error, StoreErrorKind::Misconfigured, "upgrade Semel");
    run(&store, "UPDATE semel_records_meta SET version = 0").await;
    check(&refused(&database.url).await, StoreErrorKind::Misconfigured, "create()");
    creating.connect(&database.url).await.unwrap();
    PostgresStore::connect(&database.url).await.unwrap();
}

#[tokio::test]
async fn a_read_only_server_refuses() {
    let (first, database) = store().await;
    set_for_database(&first, "default_transaction_read_only = on").await;
    let store = PostgresStore::connect(&database.url).await.unwrap();
    let call = Once::new(store).call("pay", 1).run(async |_| Ok(()));
    let error = call.await.unwrap_err();
    check(error.find::<StoreError>().unwrap(), StoreErrorKind::Refused, "connect to the primary");
}

#[tokio::test]
async fn a_user_without_rights_is_refused() {
    let (store, database) = store().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(store.pool()).await.unwrap();
    run(&store, &format!("CREATE ROLE {name}_guest LOGIN PASSWORD 'guest'")).await;
    let (scheme, rest) = database.url.split_once("://").unwrap();
    let (_, host) = rest.split_once('@').unwrap_or(("", rest));
    let error = refused(&format!("{scheme}://{name}_guest:guest@{host}")).await;
    run(&store, &format!("DROP ROLE {name}_guest")).await;
    check(&error, StoreErrorKind::Refused, "grant");
}

#[tokio::test]
async fn what_is_no_name_is_refused_before_anybody_connects() {
    for name in ["", "a\"; DROP TABLE x", "a b", "1a", "ä"] {
        let error =
            PostgresStore::builder().table(name).connect("postgres://127.0.0.1:1/x").await.unwrap_err();
        check(&error, StoreErrorKind::Misconfigured, "no name for a table");
        assert!(PostgresStore::builder().schema(name).schema_sql().is_err());
    }
}

#[tokio::test]
async fn keys_of_any_bytes_are_kept() {
    let (store, _database) = store().await;
    let once = Once::new(store);
    for id in [&b"\0"[..], b"'; DROP TABLE semel_records; --", b"\\x00", &[0xff, 0xfe]] {
        assert_eq!(once.call("bytes", id).run(async |_| Ok(1)).await.unwrap(), 1);
        assert_eq!(once.call("bytes", id).run(async |_| Ok(2)).await.unwrap(), 1);
    }
    for id in ["{}*>", "a'b\"c", "$1", "%s", "\u{1f980}"] {
        assert_eq!(once.call("text", id).run(async |_| Ok(1)).await.unwrap(), 1);
        assert_eq!(once.call("text", id).run(async |_| Ok(2)).await.unwrap(), 1);
    }
    let nul = once.call("text", "a\0b").run(async |_| Ok(())).await.unwrap_err();
    assert_eq!(nul.kind(), ErrorKind::InvalidKey);
}

#[tokio::test]
async fn a_damaged_row_is_never_taken_for_absent() {
    let (store, _database) = store().await;
    let once = Once::new(store.clone());
    once.call("test", "damaged").run(async |_| Ok(())).await.unwrap();
    run(&store, "UPDATE semel_records SET record = set_byte(record, 5, 255)").await;
    let error = store.load(&key("damaged")).await.unwrap_err();
    check(&error, StoreErrorKind::Corrupt, "test/damaged");
    assert!(once.call("test", "damaged").run(async |_| Ok(())).await.is_err());
}

#[tokio::test]
async fn an_exhausted_pool_is_told_in_bounded_time() {
    let database = servers::postgres().await;
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(Duration::from_secs(1));
    let pool = pool.connect(&database.url).await.unwrap();
    let store = PostgresStore::builder().create().pool(pool.clone()).await.unwrap();
    let held = pool.acquire().await.unwrap();
    let error = store.load(&key("any")).await.unwrap_err();
    check(&error, StoreErrorKind::Unavailable, "enlarge the pool");
    drop(held);
    assert!(store.load(&key("any")).await.unwrap().is_none(), "and it recovers");
}
