//! The table: made by one call, or as text for somebody else to run.
//!
//! 1. It is billed per request, has the store's key and nothing else, and its TTL is the store's.
//! 2. Making it twice makes it once: a table that is there is left as it is, but for its TTL.
//!
//! It does not change a table's key, billing or backups.

use super::{
    DynamoStore, STORE,
    error::{Doing, in_time},
    one_request,
};
use aws_sdk_dynamodb::{
    operation::{create_table::CreateTableError, update_time_to_live::UpdateTimeToLiveError},
    types::{
        AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
        TimeToLiveSpecification, TimeToLiveStatus,
    },
};
use semel_core::{
    store::{StoreError, StoreErrorKind},
    time::Clock,
};
use std::{fmt::Write, time::Duration};

/// How often a new table is asked whether it is ready.
const LOOKS_MAX: u32 = 60;
/// How long to wait between two looks.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

impl DynamoStore {
    /// Makes the table and switches its TTL on, where they are not there yet; returns when it is ready.
    pub async fn create_table(&self) -> Result<(), StoreError> {
        let doing = Doing::new("create the table", &self.layout);
        let mut create = self
            .client
            .create_table()
            .table_name(&self.layout.table)
            .billing_mode(BillingMode::PayPerRequest);
        for (name, role) in self.key_names() {
            create = create.attribute_definitions(string(name)).key_schema(part(name, role));
        }
        let created = create.customize().config_override(one_request()).send();
        match in_time(created).await {
            Ok(_) => {}
            Err(error)
                if matches!(error.as_service_error(), Some(CreateTableError::ResourceInUseException(_))) => {}
            Err(error) => return Err(doing.failed(error)),
        }
        self.until_active().await?;
        self.enable_ttl().await
    }

    async fn until_active(&self) -> Result<(), StoreError> {
        let doing = Doing::new("wait for the table", &self.layout);
        for _ in 0..LOOKS_MAX {
            let described = self.client.describe_table().table_name(&self.layout.table).send();
            let table = in_time(described).await.map_err(|error| doing.failed(error))?.table;
            if table.and_then(|it| it.table_status) == Some(TableStatus::Active) {
                return Ok(());
            }
            self.clock.sleep(LOOK_PAUSE).await;
        }
        Err(doing.explained((StoreErrorKind::Unavailable, "it is still being created: look again later")))
    }

    async fn enable_ttl(&self) -> Result<(), StoreError> {
        if self.ttl_is_on().await? {
            return Ok(());
        }
        let doing = Doing::new("switch the table's TTL on", &self.layout);
        let ttl = TimeToLiveSpecification::builder().attribute_name(&self.layout.expires_at).enabled(true);
        let ttl = ttl.build().expect("a TTL with a name and a switch is complete");
        let update = self.client.update_time_to_live().table_name(&self.layout.table);
        let updated = update.time_to_live_specification(ttl).customize().config_override(one_request());
        in_time(updated.send()).await.map(drop).map_err(|error| doing.failed::<UpdateTimeToLiveError>(error))
    }

    async fn ttl_is_on(&self) -> Result<bool, StoreError> {
        let doing = Doing::new("look at the table's TTL", &self.layout);
        let described = self.client.describe_time_to_live().table_name(&self.layout.table).send();
        let ttl = in_time(described).await.map_err(|error| doing.failed(error))?.time_to_live_description;
        let Some(ttl) = ttl else { return Ok(false) };
        let is_on =
            matches!(ttl.time_to_live_status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling));
        match ttl.attribute_name {
            Some(other) if is_on && other != self.layout.expires_at => {
                let context = format!(
                    "switch the TTL of table `{}` on: it is on for attribute `{other}`; \
                     tell the store so with `expires_attribute`",
                    self.layout.table
                );
                Err(StoreError::new(StoreErrorKind::Misconfigured, STORE, context))
            }
            Some(_) | None => Ok(is_on),
        }
    }

    /// The names of the table's key, with their roles.
    fn key_names(&self) -> impl Iterator<Item = (&str, KeyType)> {
        let sort = self.layout.sort_key.iter().map(|(name, _)| (name.as_str(), KeyType::Range));
        [(self.layout.partition_key.as_str(), KeyType::Hash)].into_iter().chain(sort)
    }

    /// The commands of the AWS CLI that make the table.
    pub fn create_table_cli(&self) -> String {
        let table = quoted(&self.layout.table);
        let (mut definitions, mut schema) = (String::new(), String::new());
        for (name, role) in self.key_names() {
            let name = quoted(name);
            // Writing into a string does not fail.
            let _ = write!(definitions, " AttributeName={name},AttributeType=S");
            let _ = write!(schema, " AttributeName={name},KeyType={}", role.as_str());
        }
        let expires_at = quoted(&self.layout.expires_at);
        format!(
            "aws dynamodb create-table --table-name {table} --billing-mode PAY_PER_REQUEST \\\n    \
             --attribute-definitions{definitions} \\\n    \
             --key-schema{schema}\n\
             aws dynamodb wait table-exists --table-name {table}\n\
             aws dynamodb update-time-to-live --table-name {table} \\\n    \
             --time-to-live-specification Enabled=true,AttributeName={expires_at}\n\
             aws dynamodb update-continuous-backups --table-name {table} \\\n    \
             --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true\n"
        )
    }

    /// The resource of a CloudFormation template that makes the table.
    pub fn cloudformation(&self) -> String {
        let (mut definitions, mut schema) = (String::new(), String::new());
        for (name, role) in self.key_names() {
            // JSON's strings are YAML's, too.
            let name = json(name);
            let _ = write!(definitions, "\n      - {{ AttributeName: {name}, AttributeType: S }}");
            let _ = write!(schema, "\n      - {{ AttributeName: {name}, KeyType: {} }}", role.as_str());
        }
        let (table, expires_at) = (json(&self.layout.table), json(&self.layout.expires_at));
        format!(
            "SemelTable:\n  \
             Type: AWS::DynamoDB::Table\n  \
             DeletionPolicy: Retain\n  \
             UpdateReplacePolicy: Retain\n  \
             Properties:\n    \
             TableName: {table}\n    \
             BillingMode: PAY_PER_REQUEST\n    \
             AttributeDefinitions:{definitions}\n    \
             KeySchema:{schema}\n    \
             TimeToLiveSpecification: {{ AttributeName: {expires_at}, Enabled: true }}\n    \
             PointInTimeRecoverySpecification: {{ PointInTimeRecoveryEnabled: true }}\n"
        )
    }
}

fn string(name: &str) -> AttributeDefinition {
    let definition =
        AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
    definition.build().expect("an attribute with a name and a type is complete")
}

fn part(name: &str, role: KeyType) -> KeySchemaElement {
    let element = KeySchemaElement::builder().attribute_name(name).key_type(role);
    element.build().expect("a part of a key with a name and a role is complete")
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
