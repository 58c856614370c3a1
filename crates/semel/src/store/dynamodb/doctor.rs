//! What the table really promises.
//!
//! 1. The table must be there, be in service, and have the key that the store was told of: else it is refused.
//! 2. Without TTL on the store's attribute nothing is ever removed, and on another attribute the wrong things are.
//! 3. A global table that replicates asynchronously lets both of two regions win: tier C between regions.
//! 4. What the credentials do not allow to see is a warning.

use super::{
    DynamoStore, STORE,
    error::{Doing, in_time, is_denied},
};
use crate::doctor::{Finding, Report, Tier};
use aws_sdk_dynamodb::types::{
    KeyType, MultiRegionConsistency, PointInTimeRecoveryStatus, ScalarAttributeType, TableDescription,
    TableStatus, TimeToLiveDescription, TimeToLiveStatus,
};
use semel_core::store::StoreError;

impl DynamoStore {
    /// Looks at the table, its TTL and its backups. Needs `dynamodb:DescribeTable`,
    /// `dynamodb:DescribeTimeToLive` and `dynamodb:DescribeContinuousBackups` to see them.
    pub async fn doctor(&self) -> Result<Report, StoreError> {
        let report = self.examine_table(Report::new(STORE, Tier::A)).await?;
        let report = self.examine_ttl(report).await?;
        self.examine_backups(report).await
    }

    async fn examine_table(&self, report: Report) -> Result<Report, StoreError> {
        let describe = self.client.describe_table().table_name(&self.layout.table).customize();
        match in_time(describe.interceptor(self.learn_date()).send()).await {
            Ok(described) => {
                let table = described.table.unwrap_or_else(|| TableDescription::builder().build());
                let report = report.with(in_service(&table)).with(self.key_schema(&table));
                Ok(replicated(report, &table))
            }
            Err(error) if is_denied(&error) => Ok(report.with(hidden("table", "dynamodb:DescribeTable"))),
            Err(error) => Err(Doing::new("look at the table", &self.layout).failed(error)),
        }
    }

    async fn examine_ttl(&self, report: Report) -> Result<Report, StoreError> {
        match in_time(self.client.describe_time_to_live().table_name(&self.layout.table).send()).await {
            Ok(described) => {
                let ttl = described.time_to_live_description;
                Ok(report.with(self.ttl(ttl.unwrap_or_else(|| TimeToLiveDescription::builder().build()))))
            }
            Err(error) if is_denied(&error) => Ok(report.with(hidden("TTL", "dynamodb:DescribeTimeToLive"))),
            Err(error) => Err(Doing::new("look at the table's TTL", &self.layout).failed(error)),
        }
    }

    async fn examine_backups(&self, report: Report) -> Result<Report, StoreError> {
        const WHAT: &str = "point-in-time recovery";
        let describe = self.client.describe_continuous_backups().table_name(&self.layout.table);
        let Ok(described) = in_time(describe.send()).await else {
            // Nothing that the store does depends on them.
            return Ok(report.with(hidden(WHAT, "dynamodb:DescribeContinuousBackups")));
        };
        let backups = described.continuous_backups_description;
        let status =
            backups.and_then(|it| it.point_in_time_recovery_description?.point_in_time_recovery_status);
        if status == Some(PointInTimeRecoveryStatus::Enabled) {
            return Ok(report.with(Finding::fine(WHAT, "on")));
        }
        let finding = Finding::warning(WHAT).found("off").wanted("on");
        Ok(report.with(finding.remedy("switch it on, to survive a table that was deleted or overwritten")))
    }

    /// Whether the table has the key that the store was told of.
    fn key_schema(&self, table: &TableDescription) -> Finding {
        const WHAT: &str = "key";
        let name = |role: &KeyType| {
            let part = table.key_schema().iter().find(|it| it.key_type() == role)?;
            let is_it = |name: &str| name == part.attribute_name();
            let definition = table.attribute_definitions().iter().find(|it| is_it(it.attribute_name()))?;
            let kind = definition.attribute_type();
            let kind = if *kind == ScalarAttributeType::S { "" } else { " (not a string)" };
            Some(format!("{}{kind}", part.attribute_name()))
        };
        let found = (name(&KeyType::Hash).unwrap_or_default(), name(&KeyType::Range));
        let wanted =
            (self.layout.partition_key.clone(), self.layout.sort_key.as_ref().map(|(name, _)| name.clone()));
        if found == wanted {
            return Finding::fine(WHAT, described(&found));
        }
        Finding::refused(WHAT)
            .found(described(&found))
            .wanted(described(&wanted))
            .remedy("name the table's own key with `partition_key` and `sort_key`, or use another table")
    }

    fn ttl(&self, ttl: TimeToLiveDescription) -> Finding {
        const WHAT: &str = "TTL";
        let wanted = format!("on for `{}`", self.layout.expires_at);
        match (ttl.time_to_live_status, ttl.attribute_name) {
            (Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling), Some(name))
                if name == self.layout.expires_at =>
            {
                Finding::fine(WHAT, wanted)
            }
            (Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling), Some(name)) => {
                Finding::warning(WHAT)
                    .found(format!("on for `{name}`"))
                    .wanted(wanted)
                    .remedy("name it with `expires_attribute`, or expired records stay for ever")
            }
            // The SDK's own enums: off, going off, or something new.
            _ => Finding::warning(WHAT)
                .found("off")
                .wanted(wanted)
                .remedy("switch it on with `DynamoStore::create_table`, or expired records stay for ever"),
        }
    }
}

fn in_service(table: &TableDescription) -> Finding {
    const WHAT: &str = "table status";
    match table.table_status() {
        Some(it @ (TableStatus::Active | TableStatus::Updating)) => {
            Finding::fine(WHAT, it.as_str().to_owned())
        }
        other => Finding::refused(WHAT)
            .found(other.map_or("unknown", TableStatus::as_str).to_owned())
            .wanted("ACTIVE")
            .remedy("wait until it is in service, or use another table"),
    }
}

/// Whether other regions write the same table.
fn replicated(report: Report, table: &TableDescription) -> Report {
    const WHAT: &str = "replication";
    if table.replicas().is_empty() {
        return report.with(Finding::fine(WHAT, "within one region"));
    }
    if table.multi_region_consistency() == Some(&MultiRegionConsistency::Strong) {
        return report.with(Finding::fine(WHAT, "between regions, strongly consistent"));
    }
    let finding = Finding::warning(WHAT)
        .found("between regions, asynchronous")
        .wanted("one region, or strong consistency")
        .remedy("let only one region write this table: claims in two regions may both win");
    report.with(finding).at_most(Tier::C)
}

fn hidden(what: &'static str, permission: &str) -> Finding {
    Finding::warning(what)
        .found("not to be seen with these credentials")
        .remedy(format!("grant `{permission}` to have it checked"))
}

fn described((partition, sort): &(String, Option<String>)) -> String {
    match sort {
        Some(sort) => format!("`{partition}` and `{sort}`"),
        None => format!("`{partition}`"),
    }
}
