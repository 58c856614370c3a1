//! The program `semel`, as its users have it: the real binary, real sockets, upstreams in this process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

mod answers;
mod api;
mod cli;
#[cfg(feature = "__clients")]
mod clients;
mod config;
mod demo;
mod floods;
mod fuzz;
mod hostile;
mod keyed;
mod logs;
mod lost;
mod markup;
mod messages;
mod pass;
mod proof;
mod reach;
mod serve;
mod stop;
#[cfg(any(
    feature = "dynamodb",
    feature = "firestore",
    feature = "nats",
    feature = "postgres",
    feature = "redis"
))]
mod stores;
mod upgrade;
mod verdicts;
