//! What Redis says, as the kind of trouble it is and what to do about it.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use semel_core::{
    store::{StoreError, StoreErrorKind},
    wire::WireError,
};
use tokio::sync::oneshot::error::RecvError;

const STORE: &str = "redis";
const FOREIGN: &str = "something else stands under this name: choose another prefix";

/// What was being done, and what came of it.
pub(super) fn trouble(doing: &str, error: RedisError) -> StoreError {
    let (kind, remedy) = judge(&error);
    StoreError::new(kind, STORE, format!("{doing}: {remedy}")).because(error)
}

/// As [`trouble`], for a client of a cluster: it followed redirections for as long as it may.
pub(super) fn cluster_trouble(doing: &str, error: RedisError) -> StoreError {
    use ServerErrorKind::{Ask, Moved};
    if !matches!(error.kind(), ErrorKind::Server(Moved | Ask)) {
        return trouble(doing, error);
    }
    let context = format!("{doing}: its slot is on its way to another node of the cluster");
    StoreError::new(StoreErrorKind::Unavailable, STORE, context).because(error)
}

pub(super) fn misconfigured(context: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, STORE, context)
}

/// What stands under a record's name is no string.
pub(super) fn foreign() -> StoreError {
    misconfigured(format!("swap a record: {FOREIGN}"))
}

/// The task that was to send it is gone, and so is its runtime.
pub(super) fn lost_task(error: RecvError) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, STORE, "swap a record: the runtime is ending").because(error)
}

pub(super) fn corrupt(what: &str) -> StoreError {
    let context = format!("read a record: found {what}; does another program write under this prefix?");
    StoreError::new(StoreErrorKind::Corrupt, STORE, context)
}

/// A record's bytes that cannot be read.
pub(super) fn unreadable(error: WireError) -> StoreError {
    crate::store::unreadable::unreadable(STORE, "read a record", error)
}

/// The kind of trouble, and its remedy.
fn judge(error: &RedisError) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Misconfigured, Refused, Unavailable};
    match error.kind() {
        ErrorKind::Server(kind) => judge_server(kind, error.detail().unwrap_or_default()),
        ErrorKind::Extension => judge_code(error.code().unwrap_or_default()),
        ErrorKind::AuthenticationFailed => (Misconfigured, "check the user name and the password in the URL"),
        ErrorKind::InvalidClientConfig | ErrorKind::RESP3NotSupported => (
            Misconfigured,
            "check the URL, which looks like redis://user:password@host:6379/0; `rediss://` needs a TLS \
             feature of the `redis` crate",
        ),
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
            (Misconfigured, "what answers there does not speak as Redis does: check the host and the port")
        }
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => {
            (Unavailable, "no answer; if it stays so, check that the server runs at this host and port")
        }
        ErrorKind::Client => (Refused, "the client would not send it"),
        _ => (Unavailable, "the server could not be used"),
    }
}

fn judge_server(kind: ServerErrorKind, detail: &str) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Misconfigured, Refused, Unavailable};
    match kind {
        ServerErrorKind::BusyLoading
        | ServerErrorKind::TryAgain
        | ServerErrorKind::ClusterDown
        | ServerErrorKind::MasterDown => (Unavailable, "the server is not ready"),
        ServerErrorKind::ReadOnly => (Refused, "this is a read-only replica: connect to the primary"),
        ServerErrorKind::NoPerm => {
            let remedy = "the user may not: allow it `+get +mget +set +msetnx +time +eval +evalsha` on the prefix's keys";
            (Refused, remedy)
        }
        ServerErrorKind::Moved | ServerErrorKind::Ask => {
            (Misconfigured, "this is a node of a cluster: use `RedisStore::connect_cluster`")
        }
        ServerErrorKind::ResponseError if detail.contains("max number of clients") => {
            (Unavailable, "the server has no connection left: raise its `maxclients`")
        }
        ServerErrorKind::ResponseError if detail.contains("DB index") => {
            (Misconfigured, "the server has no database of this number: check the end of the URL")
        }
        _ => (Refused, "the server refused it"),
    }
}

/// Codes that the client does not know by name.
fn judge_code(code: &str) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Misconfigured, Refused, Unavailable};
    match code {
        "WRONGPASS" | "NOAUTH" => (Misconfigured, "check the user name and the password in the URL"),
        "OOM" => (Refused, "the server's memory is full: raise `maxmemory`, or keep records for less long"),
        "MISCONF" => (Refused, "the server cannot write to its disk: see its log"),
        "NOREPLICAS" => (Unavailable, "fewer replicas are connected than `min-replicas-to-write` demands"),
        "BUSY" => (Unavailable, "the server is busy with a script"),
        "WRONGTYPE" => (Misconfigured, FOREIGN),
        _ => (Refused, "the server refused it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    fn said(line: &str) -> RedisError {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an error is a reply");
        let Value::ServerError(error) = reply else { panic!("`{line}` is no error") };
        error.into()
    }

    #[test]
    fn what_the_server_says_has_a_kind_and_a_remedy() {
        use StoreErrorKind::{Misconfigured, Refused, Unavailable};
        let table = [
            ("LOADING Redis is loading the dataset in memory", Unavailable, "not ready"),
            ("CLUSTERDOWN The cluster is down", Unavailable, "not ready"),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Unavailable, "not ready"),
            ("MASTERDOWN Link with MASTER is down", Unavailable, "not ready"),
            ("BUSY Redis is busy running a script", Unavailable, "busy"),
            ("NOREPLICAS Not enough good replicas to write.", Unavailable, "min-replicas-to-write"),
            ("ERR max number of clients reached", Unavailable, "maxclients"),
            ("READONLY You can't write against a read only replica.", Refused, "the primary"),
            ("OOM command not allowed when used memory > 'maxmemory'.", Refused, "maxmemory"),
            ("MISCONF Redis is configured to save RDB snapshots", Refused, "disk"),
            ("NOPERM this user has no permissions to run the 'evalsha' command", Refused, "+evalsha"),
            ("ERR unknown command 'EVALSHA'", Refused, "refused"),
            ("WRONGPASS invalid username-password pair", Misconfigured, "password"),
            ("NOAUTH Authentication required.", Misconfigured, "password"),
            ("MOVED 3999 127.0.0.1:6381", Misconfigured, "connect_cluster"),
            ("ERR DB index is out of range", Misconfigured, "database"),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Misconfigured, "prefix"),
        ];
        for (line, kind, remedy) in table {
            let error = trouble("swap a record", said(line));
            assert_eq!(error.kind(), kind, "{line}");
            let text = error.to_string();
            assert!(text.starts_with("redis store: swap a record: ") && text.contains(remedy), "{text}");
        }
    }
}
