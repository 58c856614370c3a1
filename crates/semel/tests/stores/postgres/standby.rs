//! A primary and the standby that takes over from it.

use super::server::Server;
use semel::{
    Begin, Once, StoreError, StoreErrorKind,
    doctor::{Finding, Severity},
    store::postgres::PostgresStore,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, postgres::PgConnectOptions};

/// What the standby calls itself.
const NAME: &str = "second";

async fn run(pool: &PgPool, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(pool).await.unwrap();
}

/// Waits until the doctor says this of the synchronous standbys.
async fn until(store: &PostgresStore, severity: Severity, found: &str) {
    let mut last = None;
    for _ in 0..100_000 {
        let finding = standbys(store).await;
        if (finding.severity, &*finding.found) == (severity, found) {
            return;
        }
        last = Some(finding);
    }
    panic!("the doctor said last: {last:?}");
}

async fn standbys(store: &PostgresStore) -> Finding {
    let report = store.doctor().await.unwrap().accepted().unwrap();
    report.findings.into_iter().find(|it| it.what == "synchronous_standby_names").unwrap()
}

/// Connections that are made from now on go there, as if a name had moved; those of before are gone.
async fn moves_to(store: &PostgresStore, server: &Server) {
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let pool = store.pool();
    let mut last = pool.acquire().await.unwrap();
    sqlx::query(others).execute(&mut *last).await.unwrap();
    pool.set_connect_options(server.url().parse::<PgConnectOptions>().unwrap());
    last.close().await.unwrap();
}

fn check(error: &StoreError) {
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error:?}");
    assert!(error.to_string().contains("connect to the primary"), "{error}");
}

/// From now on commits wait until the standby of this name has them.
async fn wait_for(store: &PostgresStore, name: &str) {
    run(store.pool(), &format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'")).await;
    run(store.pool(), "SELECT pg_reload_conf()").await;
}

/// The settings were read again, and whoever commits waits for a standby.
async fn until_a_commit_waits(store: &PostgresStore) {
    let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')";
    for _ in 0..100_000 {
        if sqlx::query_scalar(waiting).fetch_one(store.pool()).await.unwrap() {
            return;
        }
    }
    panic!("no commit waits");
}

/// Commits wait for it; connections are made all the same, also where the fences have fallen behind the clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_whose_standby_is_not_there_can_still_be_asked_what_is_wrong() {
    let primary = Server::primary();
    let store = PostgresStore::builder().create().connect(&primary.url()).await.unwrap();
    wait_for(&store, NAME).await;
    let mut writer = PgConnection::connect(&primary.url()).await.unwrap();
    let writing = tokio::spawn(async move {
        while sqlx::query("SELECT setval('semel_records_fence', 1)").execute(&mut writer).await.is_ok() {}
    });
    until_a_commit_waits(&store).await;
    moves_to(&store, &primary).await;
    writing.await.unwrap();
    until(&store, Severity::Warning, "second, none of which is connected").await;
}

/// Nobody who holds a lease loses it, nothing that was done is done again, and fences go on growing.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_refuses_until_it_is_promoted_and_then_goes_on_where_the_primary_was() {
    let primary = Server::primary();
    let store = PostgresStore::builder().create().connect(&primary.url()).await.unwrap();
    until(&store, Severity::Warning, "empty").await;
    wait_for(&store, NAME).await;
    until(&store, Severity::Warning, "second, none of which is connected").await;
    let standby = primary.standby(NAME);
    until(&store, Severity::Fine, NAME).await;

    let once = Once::new(store.clone());
    assert_eq!(once.call("pay", "done").run(async |_| Ok(1)).await.unwrap(), 1);
    let Begin::Run(lease) = once.call("pay", "begun").begin().await.unwrap() else { panic!("it is new") };

    check(&PostgresStore::connect(&standby.url()).await.unwrap_err());
    check(&PostgresStore::builder().create().connect(&standby.url()).await.unwrap_err());
    moves_to(&store, &standby).await;
    for id in ["done", "new"] {
        let call = once.call("pay", id).run(async |_| -> Result<i32, _> { panic!("it ran unprotected") });
        check(call.await.unwrap_err().find::<StoreError>().unwrap());
    }
    assert!(store.doctor().await.unwrap().is_refused(), "it cannot be written to");
    let fence = lease.fence();
    // Refused for now, and asked again until the standby is promoted.
    let completing = tokio::spawn(lease.complete(&3));

    drop(primary);
    run(store.pool(), "SELECT pg_promote()").await;
    // It was copied with the primary's settings, and has no standby of its own.
    until(&store, Severity::Warning, "second, none of which is connected").await;
    wait_for(&store, "").await;
    until(&store, Severity::Warning, "empty").await;
    assert_eq!(once.call("pay", "done").run(async |_| Ok(2)).await.unwrap(), 1);
    completing.await.unwrap().unwrap();
    assert_eq!(once.call("pay", "begun").run(async |_| Ok(4)).await.unwrap(), 3);
    let outcome = once.call("pay", "new").run_outcome(async |_| Ok(5)).await.unwrap();
    assert!(outcome.fence > fence, "{} came after {fence}", outcome.fence);
}
