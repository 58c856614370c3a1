//! What can be seen of a server's promises.
//!
//! 1. The tier is C whatever is found: see [what is promised](super#what-is-promised).
//! 2. What drops acknowledged records in the course of a normal day (eviction, a replica that cannot be written
//!    to) is refused; what loses them with a crash is a warning.
//! 3. What `INFO` tells is believed; a setting that only `CONFIG GET` tells, and a managed server hides, is a
//!    warning.

use super::{
    RedisStore,
    connection::Connection,
    error::{corrupt, trouble},
};
use crate::doctor::{Finding, Report, Tier};
use redis::{FromRedisValue, Value, cmd, from_redis_value};
use semel_core::store::StoreError;
use std::{borrow::Cow, collections::BTreeMap};

impl RedisStore {
    /// What this server, or each node of this cluster, promises as it is set up.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        let nodes = nodes(&self.connection).await?;
        let appendfsync = appendfsync(&self.connection).await;
        let report = Report::new("redis", Tier::C).with(failover(&nodes));
        let report = nodes.iter().flat_map(Info::findings).fold(report, Report::with);
        let syncing = |it: &Info| it.syncing(appendfsync.get(&it.node).map(String::as_str));
        Ok(nodes.iter().filter_map(syncing).fold(report, Report::with))
    }
}

/// What `INFO` tells of one server.
struct Info {
    /// Its address, if it is one of several.
    node: Option<String>,
    fields: BTreeMap<String, String>,
}

async fn nodes(connection: &Connection) -> Result<Vec<Info>, StoreError> {
    let reply = connection.send_to_all(cmd("INFO")).await.map_err(|it| trouble("ask for `INFO`", it))?;
    if !connection.is_cluster() {
        return Ok(vec![Info::read(None, reply)?]);
    }
    // A cluster's client answers with a map from each node to what it said.
    let replies = BTreeMap::<String, Value>::from_redis_value(reply)
        .map_err(|it| trouble("ask every node for `INFO`", it.into()))?;
    let nodes = replies.into_iter().map(|(node, reply)| Info::read(Some(node), reply));
    // Replicas are not written to: only what a primary loses is lost.
    let nodes = nodes.filter(|it| it.as_ref().is_ok_and(Info::is_primary) || it.is_err());
    nodes.collect()
}

/// How often each node syncs its append-only file, of those that may be asked.
async fn appendfsync(connection: &Connection) -> BTreeMap<Option<String>, String> {
    let mut command = cmd("CONFIG");
    command.arg("GET").arg("appendfsync");
    let Ok(reply) = connection.send_to_all(command).await else { return BTreeMap::new() };
    let replies = if connection.is_cluster() {
        let replies = BTreeMap::<String, Value>::from_redis_value(reply).unwrap_or_default();
        replies.into_iter().map(|(node, reply)| (Some(node), reply)).collect()
    } else {
        vec![(None, reply)]
    };
    let value = |reply| from_redis_value::<(String, String)>(reply).ok().map(|(_, value)| value);
    replies.into_iter().filter_map(|(node, reply)| Some((node, value(reply)?))).collect()
}

/// The one thing that no setting mends.
fn failover(nodes: &[Info]) -> Finding {
    let replicas: u64 = nodes.iter().map(Info::replicas).sum();
    let finding = Finding::warning("replication").wanted("acknowledged writes on more than one server");
    if replicas == 0 {
        return finding
            .found("none: what this server loses is lost")
            .remedy("a call may then run again; use a store of tier A where it must not");
    }
    finding
        .found(format!("asynchronous, {replicas} replicas: a failover may forget acknowledged records"))
        .remedy("a call may then run again; use a store of tier A where it must not")
}

impl Info {
    fn read(node: Option<String>, reply: Value) -> Result<Self, StoreError> {
        let text = String::from_redis_value(reply).map_err(|_| corrupt("an `INFO` that is no text"))?;
        let field = |line: &str| line.trim_end().split_once(':').map(|(k, v)| (k.to_owned(), v.to_owned()));
        Ok(Self { node, fields: text.lines().filter_map(field).collect() })
    }

    fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("hidden", String::as_str)
    }

    fn is_primary(&self) -> bool {
        self.get("role") != "slave"
    }

    fn replicas(&self) -> u64 {
        self.get("connected_slaves").parse().unwrap_or(0)
    }

    /// The setting, and whose it is if there are several.
    fn what(&self, setting: &'static str) -> Cow<'static, str> {
        self.node.as_ref().map_or(setting.into(), |node| format!("{setting} of {node}").into())
    }

    fn findings(&self) -> [Finding; 3] {
        [self.role(), self.eviction(), self.append_only()]
    }

    fn role(&self) -> Finding {
        match self.get("role") {
            "master" => Finding::fine(self.what("role"), "primary"),
            role => Finding::refused(self.what("role"))
                .found(role.to_owned())
                .wanted("primary")
                .remedy("connect to the primary: a replica cannot be written to"),
        }
    }

    fn eviction(&self) -> Finding {
        let (policy, memory) = (self.get("maxmemory_policy").to_owned(), self.get("maxmemory"));
        match (policy.as_str(), memory) {
            ("noeviction", _) => Finding::fine(self.what("maxmemory-policy"), policy),
            ("hidden", _) => Finding::warning(self.what("maxmemory-policy"))
                .found(policy)
                .wanted("noeviction")
                .remedy("make sure that the server evicts nothing"),
            // Without a limit nothing is evicted, until somebody sets one.
            (_, "0") => Finding::warning(self.what("maxmemory-policy"))
                .found(format!("{policy}, with no `maxmemory`"))
                .wanted("noeviction")
                .remedy("set `maxmemory-policy noeviction`"),
            _ => Finding::refused(self.what("maxmemory-policy"))
                .found(policy)
                .wanted("noeviction")
                .remedy("set `maxmemory-policy noeviction`: an evicted record is a call that runs again"),
        }
    }

    fn append_only(&self) -> Finding {
        match self.get("aof_enabled") {
            "1" => Finding::fine(self.what("appendonly"), "yes"),
            found => Finding::warning(self.what("appendonly"))
                .found(if found == "0" { "no" } else { "hidden" })
                .wanted("yes")
                .remedy("set `appendonly yes`: a restart forgets what was written since the last snapshot"),
        }
    }

    /// How often the append-only file is synced, if there is one.
    fn syncing(&self, appendfsync: Option<&str>) -> Option<Finding> {
        if self.get("aof_enabled") != "1" {
            return None;
        }
        let finding = Finding::warning(self.what("appendfsync")).wanted("always");
        Some(match appendfsync {
            Some("always") => Finding::fine(self.what("appendfsync"), "always"),
            Some(found) => finding
                .found(found.to_owned())
                .remedy("set `appendfsync always`: a power cut forgets the last second or more"),
            None => finding.found("hidden").remedy("make sure that the server syncs before it answers"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    fn info(text: &str) -> Info {
        Info::read(None, Value::BulkString(text.as_bytes().to_vec())).expect("this is text")
    }

    #[test]
    fn a_server_that_evicts_is_refused_and_one_that_has_no_limit_is_warned_of() {
        for (policy, memory, severity) in [
            ("noeviction", "1000", Severity::Fine),
            ("allkeys-lru", "0", Severity::Warning),
            ("allkeys-lru", "1000", Severity::Refused),
            ("volatile-ttl", "1000", Severity::Refused),
        ] {
            let info = info(&format!("# Memory\r\nmaxmemory:{memory}\r\nmaxmemory_policy:{policy}\r\n"));
            assert_eq!(info.eviction().severity, severity, "{policy} with {memory}");
        }
    }

    #[test]
    fn a_replica_is_refused() {
        assert_eq!(info("role:slave\r\n").role().severity, Severity::Refused);
        assert_eq!(info("role:master\r\n").role().severity, Severity::Fine);
    }

    #[test]
    fn what_a_managed_server_hides_is_not_believed_to_be_right() {
        let hidden = info("");
        assert_eq!(hidden.eviction().severity, Severity::Warning);
        assert_eq!(hidden.append_only().severity, Severity::Warning);
        let finding = info("aof_enabled:1\r\n").syncing(None).expect("there is a file to sync");
        assert_eq!((finding.severity, finding.found.as_ref()), (Severity::Warning, "hidden"));
    }
}
