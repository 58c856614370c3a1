//! The stores: each feature on its own, and all of them against their servers.
//!
//! 1. Each feature passes the lints alone, with the tests of its store, and brings the crates of no other store.
//! 2. The tests of all stores are one binary, run once beside all servers. With them go those inside of the library that
//!    no other step builds.
//! 3. So are those of the queue on PostgreSQL, and of the program whose nodes or proxies share a store: they are in modules
//!    that are named after its server, as in `postgres::`.
//! 4. What was left out is said last, in capitals: a run without a server proves nothing about its store.

use crate::{
    servers::{Kind, Servers},
    shell::{Failure, capture, cargo, run as run_command},
};
use std::cell::RefCell;

/// A store's feature, the servers it is tested on, and crates that only it brings.
struct Store {
    feature: &'static str,
    servers: &'static [Kind],
    crates: &'static [&'static str],
}

const STORES: [Store; 6] = [
    Store { feature: "postgres", servers: &[Kind::Postgres], crates: &["sqlx-postgres"] },
    Store { feature: "sqlite", servers: &[], crates: &["sqlx-sqlite", "libsqlite3-sys"] },
    Store { feature: "redis", servers: &[Kind::Redis], crates: &["redis"] },
    Store { feature: "nats", servers: &[Kind::Nats], crates: &["async-nats"] },
    Store { feature: "dynamodb", servers: &[Kind::DynamoDb], crates: &["aws-"] },
    Store { feature: "firestore", servers: &[Kind::Firestore], crates: &["gcp-", "google-", "firestore"] },
];

/// The tests of the queue, and of the program on it or on a store, that want a server beside them.
pub(crate) fn beside_servers() -> String {
    let of: Vec<_> = Kind::ALL.iter().map(|it| named_after(*it)).collect();
    format!("(binary_id(semel-runtime::it) | binary_id(semel-server::it)) & ({})", of.join(" | "))
}

/// The tests in modules that are named after a server.
fn named_after(kind: Kind) -> String {
    format!("test(/(^|::){}::/)", kind.name())
}

/// The features of all stores, and what else is off unless asked for, as cargo wants them for the whole workspace.
pub(crate) fn features() -> String {
    let stores = STORES.map(|it| format!("semel/{}", it.feature)).join(",");
    format!(
        "{stores},semel/axum,semel/jmespath,semel/seal,semel-testkit/lambda,semel-testkit/servers,semel-server/__clients"
    )
}

/// Each feature is enough for itself, and none brings another's crates.
pub(crate) fn each_alone() -> Result<(), Failure> {
    for Store { feature, .. } in &STORES {
        let bare = ["-p", "semel", "--no-default-features", "--features", feature];
        // Apart: what tests need brings the library's other features.
        for target in [&["--lib"][..], &["--test", "stores"]] {
            let mut clippy = cargo(&["clippy", "--quiet"]);
            run_command(clippy.args(bare).args(target).args(["--", "-D", "warnings"]))?;
        }
        let tree = capture(cargo(&["tree", "--edges", "normal", "--prefix", "none"]).args(bare))?;
        if tree.code != Some(0) {
            return Err(Failure::no(format!("`cargo tree` failed: {}", tree.stderr.trim())));
        }
        let strays = strays(feature, &tree.stdout);
        if !strays.is_empty() {
            return Err(Failure::no(format!("feature `{feature}` brings {}", strays.join(", "))));
        }
        println!("    {feature}: stands alone");
    }
    Ok(())
}

/// Crates in this list that belong to another feature.
fn strays<'a>(feature: &str, tree: &'a str) -> Vec<&'a str> {
    let others: Vec<_> =
        STORES.iter().filter(|it| it.feature != feature).flat_map(|it| it.crates.iter().copied()).collect();
    let is_stray = |name: &&str| {
        others.iter().any(|other| if other.ends_with('-') { name.starts_with(other) } else { name == other })
    };
    let mut names: Vec<_> =
        tree.lines().filter_map(|it| it.split_whitespace().next()).filter(is_stray).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// `cargo xtask stores`: this step alone.
pub(crate) fn run(without: Vec<Kind>) -> Result<(), Failure> {
    let tests = StoreTests::without(without);
    let verdict = tests.run();
    tests.say_what_was_left_out();
    verdict
}

/// The tests of the stores beside their servers, and what was left out of them.
pub(crate) struct StoreTests {
    without: Vec<Kind>,
    left_out: RefCell<Vec<Kind>>,
}

impl StoreTests {
    pub(crate) fn without(without: Vec<Kind>) -> Self {
        Self { left_out: RefCell::new(with_their_company(&without)), without }
    }

    /// Starts the servers, runs the tests, and stops the servers whatever came of them.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let servers = Servers::start(&self.without)?;
        self.left_out.borrow_mut().extend(servers.missing());
        let all = with_their_company(&self.left_out.borrow());
        *self.left_out.borrow_mut() = all;
        let left_out = self.left_out.borrow();
        let mut command = cargo(&["nextest", "run", "-p", "semel", "--no-fail-fast"]);
        command.args(["--lib", "--test", "stores", "--test", "lambda", "-E", &filter(&left_out)]);
        command.args(["--features", &tested_features(&left_out)]).envs(servers.variables());
        // Most of their time they wait for a lease to lapse or a timeout to pass.
        command.args(["--test-threads", "8"]);
        let stores = run_command(&mut command);
        let mut programs =
            cargo(&["nextest", "run", "-p", "semel-runtime", "-p", "semel-server", "--test", "it"]);
        programs.args(["--no-fail-fast", "--features", program_features(&left_out)]);
        programs.args(["-E", &program_filter(&left_out), "--no-tests", "pass"]);
        stores.and(run_command(programs.envs(servers.variables())))
    }

    /// Says loudly which servers the tests had to do without.
    pub(crate) fn say_what_was_left_out(&self) {
        for kind in self.left_out.borrow().iter() {
            println!("LEFT OUT: the tests on {}. This run says nothing about that store.", kind.name());
        }
    }
}

/// These, and those whose tests go with them: Valkey is tested by the feature that is Redis's.
fn with_their_company(left_out: &[Kind]) -> Vec<Kind> {
    let mut all = left_out.to_vec();
    if all.contains(&Kind::Redis) && !all.contains(&Kind::Valkey) {
        all.push(Kind::Valkey);
    }
    all
}

/// The features of the stores whose servers are there, and of whose tests need one of them.
fn tested_features(left_out: &[Kind]) -> String {
    let is_tested = |it: &&Store| !it.servers.iter().any(|server| left_out.contains(server));
    let stores: Vec<_> = STORES.iter().filter(is_tested).map(|it| it.feature).collect();
    format!("{},jmespath", stores.join(","))
}

/// Those of the queue and of the program, which has all stores but one unless more is said.
fn program_features(left_out: &[Kind]) -> &'static str {
    if left_out.contains(&Kind::DynamoDb) {
        "semel-runtime/postgres"
    } else {
        "semel-runtime/postgres,semel-server/dynamodb"
    }
}

/// The tests of the queue and of the program whose servers are there.
fn program_filter(left_out: &[Kind]) -> String {
    left_out.iter().fold(beside_servers(), |all, it| format!("{all} & not {}", named_after(*it)))
}

/// All tests of the stores, those of functions that need a server, and those inside of the library that are built only
/// here; some need a server beyond that of their feature, and are named after it.
fn filter(left_out: &[Kind]) -> String {
    let all = "binary_id(semel::stores) | test(/^dynamodb::/) | test(/^store::dynamodb::/)".to_owned();
    let tests: Vec<_> = left_out.iter().map(|it| format!("test({})", it.name())).collect();
    if tests.is_empty() { all } else { format!("({all}) and not ({})", tests.join(" | ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_of_another_store_is_a_stray() {
        let tree =
            "semel v0.1.0\nsqlx-postgres v0.9.0\naws-config v1.2.3\naws-config v1.2.3 (*)\nredis v1.0.0\n";
        assert_eq!(strays("postgres", tree), ["aws-config", "redis"]);
        assert_eq!(strays("redis", tree), ["aws-config", "sqlx-postgres"]);
        assert!(strays("sqlite", "semel v0.1.0\nlibsqlite3-sys v0.37.0\naws\n").is_empty());
    }

    #[test]
    fn a_server_that_is_left_out_takes_its_feature_and_its_tests_with_it() {
        let left_out = [Kind::Nats, Kind::Valkey];
        assert_eq!(tested_features(&left_out), "postgres,sqlite,redis,dynamodb,firestore,jmespath");
        assert!(filter(&left_out).ends_with(" and not (test(nats) | test(valkey))"));
        assert!(!filter(&[]).contains("not"));
        assert_eq!(with_their_company(&[Kind::Redis]), [Kind::Redis, Kind::Valkey]);
        assert_eq!(with_their_company(&left_out), left_out);
    }

    #[test]
    fn a_server_that_is_left_out_takes_the_programs_tests_with_it() {
        assert_eq!(program_filter(&[]), beside_servers());
        assert!(beside_servers().contains("test(/(^|::)postgres::/) | test(/(^|::)redis::/)"));
        let left_out = [Kind::DynamoDb, Kind::Valkey];
        let rest = " & not test(/(^|::)dynamodb::/) & not test(/(^|::)valkey::/)";
        assert_eq!(program_filter(&left_out), format!("{}{rest}", beside_servers()));
        assert_eq!(program_features(&left_out), "semel-runtime/postgres");
        assert!(program_features(&[]).ends_with(",semel-server/dynamodb"));
    }
}
