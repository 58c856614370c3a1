//! Fences of a database that went back in time: a backup that was restored, a failover to a standby that lagged.

use super::{key, run, store};
use semel::{Fence, Once, Store, Swap, store::postgres::PostgresStore};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};

/// What a backup's sequence may have come to.
const ANEW: &str = "SELECT setval('semel_records_fence', 1)";
const WRITES: usize = 50;

/// The last of many fences of one record.
async fn last_of_many(store: &PostgresStore) -> Fence {
    let key = key("many");
    Once::new(store.clone()).call("test", "many").run(async |_| Ok(())).await.unwrap();
    let found = store.load(&key).await.unwrap().unwrap();
    let mut last = found.fence;
    for _ in 0..WRITES {
        let swapped = store.swap(&key, Some(last), &found.record).await.unwrap();
        let Swap::Won(fence) = swapped else { panic!("{swapped:?}") };
        assert!(fence > last);
        last = fence;
    }
    last
}

/// Invariant 7.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_on_a_new_connection_has_a_newer_fence_than_everything_before() {
    let (store, database) = store().await;
    let before = last_of_many(&store).await;
    run(&store, ANEW).await;
    let later = PostgresStore::connect(&database.url).await.unwrap();
    let then = last_of_many(&later).await;
    assert!(then > before, "a program that was started later gave {then} after {before}");
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    let end = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    sqlx::raw_sql(ANEW).execute(&mut other).await.unwrap();
    let ended: i64 = sqlx::query_scalar(end).fetch_one(&mut other).await.unwrap();
    assert!(ended > 0);
    while later.load(&key("many")).await.is_err() {
        tokio::task::yield_now().await;
    }
    let last = last_of_many(&later).await;
    assert!(last > then, "a program that lived on gave {last} after {then}");
    sqlx::raw_sql(ANEW).execute(&mut other).await.unwrap();
    let theirs = PgPool::connect(&database.url).await.unwrap();
    let theirs = last_of_many(&PostgresStore::new(theirs).await.unwrap()).await;
    assert!(theirs > last, "a pool of a user's own gave {theirs} after {last}");
}

/// Whose clock says that it is the year 2300 leaves numbers to those who come after.
#[tokio::test]
async fn a_sequence_that_is_ahead_is_left_alone() {
    let (store, database) = store().await;
    let far = i64::MAX / 2;
    run(&store, &format!("SELECT setval('semel_records_fence', {far})")).await;
    let later = PostgresStore::connect(&database.url).await.unwrap();
    let fence = last_of_many(&later).await.get().cast_signed();
    assert!(fence > far && fence < far + 1_000, "{fence} after {far}");
}

#[tokio::test]
async fn who_may_not_move_the_sequence_is_told_what_to_grant() {
    let (store, database) = store().await;
    let role = format!("role_{}", fastrand::u64(..));
    let password = fastrand::u64(..);
    let grants = format!(
        "{ANEW}; CREATE ROLE {role} LOGIN PASSWORD '{password}'; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}; \
         GRANT USAGE ON SEQUENCE semel_records_fence TO {role}"
    );
    run(&store, &grants).await;
    let (_, place) = database.url.split_once('@').unwrap();
    let url = format!("postgres://{role}:{password}@{place}");
    let error = PostgresStore::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("USAGE and UPDATE on the sequence"), "{error}");
    run(&store, &format!("GRANT UPDATE ON SEQUENCE semel_records_fence TO {role}")).await;
    last_of_many(&PostgresStore::connect(&url).await.unwrap()).await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let gone = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    sqlx::raw_sql(AssertSqlSafe(gone)).execute(&mut connection).await.unwrap();
}
