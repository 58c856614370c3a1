//! Benchmarks, which live beside what they measure.

use crate::{
    servers::{Kind, Servers},
    shell::{Failure, cargo, run},
};

/// As what is meant for others is built.
const PROFILE: [&str; 2] = ["--profile", "dist"];

/// Measures the embedded store, optimised, and passes the arguments on.
pub(crate) fn embedded(arguments: &[&str]) -> Result<(), Failure> {
    example("semel-embedded", "bench-embedded", arguments)
}

/// Measures what the tower layer adds to a call.
pub(crate) fn service(arguments: &[&str]) -> Result<(), Failure> {
    example("semel", "bench-service", arguments)
}

/// Measures what the HTTP layer costs an axum route.
pub(crate) fn http(arguments: &[&str]) -> Result<(), Failure> {
    let build = ["--package", "semel", "--features", "axum", "--example", "bench-http", "--"];
    run(cargo(&["run"]).args(PROFILE).args(build).args(arguments))
}

/// Measures what the proxy costs a request without a key, beside a minimal one.
pub(crate) fn proxy(arguments: &[&str]) -> Result<(), Failure> {
    example("semel-server", "bench-proxy", arguments)
}

/// Measures `semel serve`, end to end, beside a forwarder that stores nothing.
pub(crate) fn runtime(arguments: &[&str]) -> Result<(), Failure> {
    example("semel-server", "bench-runtime", arguments)
}

/// Measures the SQL stores, beside plain SQL.
pub(crate) fn sql(arguments: &[&str]) -> Result<(), Failure> {
    on_server(Kind::Postgres, "semel", "postgres,sqlite", "bench-sql", arguments)
}

/// Measures the Redis store, beside bare scripts.
pub(crate) fn redis(arguments: &[&str]) -> Result<(), Failure> {
    on_server(Kind::Redis, "semel", "redis", "bench-redis", arguments)
}

/// Measures the queue on PostgreSQL, beside plain SQL.
pub(crate) fn queue_postgres(arguments: &[&str]) -> Result<(), Failure> {
    on_server(Kind::Postgres, "semel-runtime", "postgres", "bench-queue-postgres", arguments)
}

fn on_server(
    kind: Kind,
    package: &str,
    features: &str,
    name: &str,
    arguments: &[&str],
) -> Result<(), Failure> {
    let build = ["--package", package, "--features", features, "--example", name];
    // Built before the server is started: a compiler is no good neighbour.
    run(cargo(&["build"]).args(PROFILE).args(build))?;
    let without: Vec<_> = Kind::ALL.into_iter().filter(|it| *it != kind).collect();
    let servers = Servers::start(&without)?;
    run(cargo(&["run"]).args(PROFILE).args(build).arg("--").args(arguments).envs(servers.variables()))
}

fn example(package: &str, name: &str, arguments: &[&str]) -> Result<(), Failure> {
    run(cargo(&["run"]).args(PROFILE).args(["--package", package, "--example", name, "--"]).args(arguments))
}
