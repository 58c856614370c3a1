//! Repositories: one suite over `&dyn Documents`, run on everything that implements it, and what a repository
//! makes of it.

mod rules;
mod values;

use rules::{all, contended};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use semel::StoreErrorKind;
use semel::{Once, repository::Documents};
use std::sync::Arc;

async fn keeps_every_rule(documents: impl Documents) {
    let documents: Arc<dyn Documents> = Arc::new(documents);
    all(&*documents).await;
    contended(&documents).await;
}

/// Opens or creates the table after its version was set, and must be told what to do about it.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
async fn tells_versions_apart(told: impl AsyncFn(u32, &str) -> Result<(), (StoreErrorKind, String)>) {
    for by in ["open", "create"] {
        let (kind, text) = told(99, by).await.unwrap_err();
        assert_eq!(kind, StoreErrorKind::Misconfigured);
        assert!(text.contains("version 99") && text.contains("upgrade Semel"), "{text}");
    }
    let (kind, text) = told(0, "open").await.unwrap_err();
    assert_eq!(kind, StoreErrorKind::Misconfigured);
    assert!(text.contains("version 0") && text.contains("Documents::create"), "{text}");
    told(0, "create").await.unwrap();
    told(1, "open").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_in_memory_keep_every_rule() {
    keeps_every_rule(Once::memory().documents()).await;
}

#[cfg(feature = "embedded")]
#[tokio::test(flavor = "multi_thread")]
async fn documents_in_the_embedded_store_keep_every_rule_and_survive_the_process() {
    use semel::repository::Repository;
    let directory = tempfile::tempdir().unwrap();
    let once = Once::open(directory.path()).await.unwrap();
    keeps_every_rule(once.documents()).await;
    let saved = Repository::<u32>::new(once.documents(), "kept").upsert("a", &7).await.unwrap();
    drop(once);
    let once = Once::open(directory.path()).await.unwrap();
    let found = Repository::<u32>::new(once.documents(), "kept").get("a").await.unwrap().unwrap();
    assert_eq!((found.value, found.version), (7, saved));
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::keeps_every_rule;
    use semel::{
        StoreErrorKind,
        store::sqlite::{SqliteDocuments, SqliteStore},
    };
    use sqlx::SqlitePool;

    async fn pool(directory: &tempfile::TempDir) -> SqlitePool {
        let store = SqliteStore::builder().create().connect(directory.path().join("app.db")).await.unwrap();
        store.pool().clone()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn documents_in_sqlite_keep_every_rule() {
        let directory = tempfile::tempdir().unwrap();
        keeps_every_rule(SqliteDocuments::create(pool(&directory).await, "documents").await.unwrap()).await;
    }

    #[tokio::test]
    async fn a_missing_table_and_a_bad_name_are_told_and_creating_twice_is_fine() {
        let directory = tempfile::tempdir().unwrap();
        let pool = pool(&directory).await;
        for table in ["documents", "a\"b", "a.b"] {
            let error = SqliteDocuments::open(pool.clone(), table).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        }
        SqliteDocuments::create(pool.clone(), "documents").await.unwrap();
        SqliteDocuments::create(pool.clone(), "documents").await.unwrap();
        SqliteDocuments::open(pool, "documents").await.unwrap();
    }

    #[tokio::test]
    async fn another_schema_version_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let pool = pool(&directory).await;
        SqliteDocuments::create(pool.clone(), "documents").await.unwrap();
        let told = async |version: u32, by: &str| {
            let set = sqlx::query("UPDATE documents_meta SET version = $1").bind(version);
            set.execute(&pool).await.unwrap();
            let opened = match by {
                "open" => SqliteDocuments::open(pool.clone(), "documents").await,
                _ => SqliteDocuments::create(pool.clone(), "documents").await,
            };
            opened.map(drop).map_err(|error| (error.kind(), error.to_string()))
        };
        super::tells_versions_apart(told).await;
    }

    #[tokio::test]
    async fn what_a_person_runs_is_what_create_does() {
        let directory = tempfile::tempdir().unwrap();
        let pool = pool(&directory).await;
        let sql = SqliteDocuments::schema_sql("documents").unwrap();
        for _ in 0..2 {
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql.clone())).execute(&pool).await.unwrap();
        }
        SqliteDocuments::open(pool, "documents").await.unwrap();
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::keeps_every_rule;
    use semel::{StoreErrorKind, repository::Repository, store::postgres::PostgresDocuments};
    use semel_testkit::servers::{self, Database};
    use sqlx::{PgPool, Row};

    /// A pool, and the database that lives as long as it is held.
    async fn pool() -> (PgPool, Database) {
        let database = servers::postgres().await;
        (PgPool::connect(&database.url).await.unwrap(), database)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn documents_in_postgres_keep_every_rule() {
        let (pool, _database) = pool().await;
        keeps_every_rule(PostgresDocuments::create(pool, "documents").await.unwrap()).await;
    }

    #[tokio::test]
    async fn a_missing_table_and_a_bad_name_are_told_and_creating_twice_is_fine() {
        let (pool, _database) = pool().await;
        for table in ["documents", "a\"b", "a.b.c"] {
            let error = PostgresDocuments::open(pool.clone(), table).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        }
        let (one, other) = tokio::join!(
            PostgresDocuments::create(pool.clone(), "documents"),
            PostgresDocuments::create(pool.clone(), "public.documents"),
        );
        one.unwrap();
        other.unwrap();
    }

    #[tokio::test]
    async fn another_schema_version_is_told_apart() {
        let (pool, _database) = pool().await;
        PostgresDocuments::create(pool.clone(), "documents").await.unwrap();
        let told = async |version: u32, by: &str| {
            let set = sqlx::query("UPDATE documents_meta SET version = $1").bind(version.cast_signed());
            set.execute(&pool).await.unwrap();
            let opened = match by {
                "open" => PostgresDocuments::open(pool.clone(), "documents").await,
                _ => PostgresDocuments::create(pool.clone(), "documents").await,
            };
            opened.map(drop).map_err(|error| (error.kind(), error.to_string()))
        };
        super::tells_versions_apart(told).await;
    }

    #[tokio::test]
    async fn what_a_dba_runs_is_what_create_does() {
        let (pool, _database) = pool().await;
        let sql = PostgresDocuments::schema_sql("documents").unwrap();
        for _ in 0..2 {
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql.clone())).execute(&pool).await.unwrap();
        }
        PostgresDocuments::open(pool, "documents").await.unwrap();
    }

    #[tokio::test]
    async fn values_can_be_queried_as_json() {
        let (pool, _database) = pool().await;
        let documents = PostgresDocuments::create(pool.clone(), "documents").await.unwrap();
        let assets = Repository::new(documents, "assets");
        assets.upsert("a-1", &serde_json::json!({"facility": "north", "load": 5})).await.unwrap();
        let query = "SELECT body->>'facility' FROM documents WHERE collection = 'assets' AND id = 'a-1'";
        let facility: String = sqlx::query(query).fetch_one(&pool).await.unwrap().get(0);
        assert_eq!(facility, "north");
    }
}

#[cfg(feature = "dynamodb")]
mod dynamodb {
    use super::keeps_every_rule;
    use aws_sdk_dynamodb::{
        Client, Config,
        config::{BehaviorVersion, Credentials, Region},
    };
    use semel::{
        Once, StoreErrorKind,
        repository::{Repository, RepositoryErrorKind},
        store::dynamodb::{DynamoDocuments, DynamoStore},
    };
    use semel_testkit::servers;
    use std::error::Error;

    fn store() -> DynamoStore {
        let place = servers::dynamodb();
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
            .endpoint_url(&place.endpoint)
            .build();
        DynamoStore::new(Client::from_conf(config), place.table)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn documents_in_dynamodb_keep_every_rule() {
        let store = store();
        store.create_table().await.unwrap();
        keeps_every_rule(DynamoDocuments::new(&store)).await;
    }

    #[tokio::test]
    async fn documents_and_records_share_a_table() {
        let store = store();
        store.create_table().await.unwrap();
        let values = Repository::<u32>::new(DynamoDocuments::new(&store), "assets");
        let once = Once::new(store);
        values.upsert("a-1", &1).await.unwrap();
        assert_eq!(once.call("assets", "a-1").run(async |_| Ok(2)).await.unwrap(), 2);
        assert_eq!(values.get("a-1").await.unwrap().unwrap().value, 1);
    }

    #[tokio::test]
    async fn a_missing_table_and_one_whose_key_is_in_the_way_are_told() {
        let values = |store: &DynamoStore| Repository::<u32>::new(DynamoDocuments::new(store), "assets");
        for store in [store(), store().partition_key("version")] {
            let error = values(&store).upsert("a-1", &1).await.unwrap_err();
            assert_eq!(error.kind(), RepositoryErrorKind::Store);
            let cause: &semel::StoreError = error.source().unwrap().downcast_ref().unwrap();
            assert_eq!(cause.kind(), StoreErrorKind::Misconfigured, "{cause}");
        }
    }
}
