//! What DynamoDB's errors mean, and what to do about them.

use super::{ANSWER_MAX, STORE, layout::Layout};
use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ConnectorError, ProvideErrorMetadata, SdkError},
};
use semel_core::store::{
    StoreError,
    StoreErrorKind::{self, Misconfigured, Refused, TooLarge, Unavailable},
};
use std::error::Error as StdError;
use tokio::time::timeout;

/// What a request comes to, in bounded time: no answer is an error of the SDK's.
pub(super) async fn in_time<T, E>(
    asking: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
) -> Result<T, SdkError<E, HttpResponse>> {
    match timeout(ANSWER_MAX, asking).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(SdkError::timeout_error(elapsed)),
    }
}

/// What is being done, to which table.
pub(super) struct Doing<'a> {
    what: &'static str,
    table: &'a str,
}

/// A kind of trouble, and its remedy; empty where there is none but trying again.
type Meaning = (StoreErrorKind, &'static str);

impl<'a> Doing<'a> {
    pub(super) fn new(what: &'static str, layout: &'a Layout) -> Self {
        Self { what, table: &layout.table }
    }

    /// It did not succeed, because of this.
    pub(super) fn failed<E>(&self, error: SdkError<E, HttpResponse>) -> StoreError
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let meaning = meaning(&error);
        self.explained(meaning).because(error)
    }

    /// It did not succeed, for a reason that needs no cause.
    pub(super) fn explained(&self, (kind, remedy): Meaning) -> StoreError {
        let separator = if remedy.is_empty() { "" } else { ": " };
        let context = format!("{} (table `{}`){separator}{remedy}", self.what, self.table);
        StoreError::new(kind, STORE, context)
    }
}

fn meaning<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Meaning {
    const SETUP: &str = "the client is not set up: give it a region and credentials";
    match error {
        SdkError::ConstructionFailure(_) => (Misconfigured, SETUP),
        SdkError::DispatchFailure(it) if it.is_user() || it.as_connector_error().is_some_and(is_unsigned) => {
            (Misconfigured, SETUP)
        }
        SdkError::ServiceError(it) => {
            let code = it.err().code().unwrap_or_default();
            let message = it.err().message().unwrap_or_default();
            said(code, message).unwrap_or_else(|| of_status(it.raw().status().as_u16()))
        }
        // No connection, no answer in time, or one that cannot be read: it may have happened or not. The SDK's
        // enum may grow, and what it adds is no more certain.
        _ => (Unavailable, ""),
    }
}

/// Whether the request was not sent because nobody could sign it. The SDK has no type for that which others may
/// name; where its words change, the error is one to retry, which is harmless.
fn is_unsigned(error: &ConnectorError) -> bool {
    error.source().is_some_and(|it| it.to_string().starts_with("failed to select an auth scheme"))
}

/// Whether DynamoDB refused somebody who may look at nothing but items.
pub(super) fn is_denied<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> bool {
    error.as_service_error().and_then(ProvideErrorMetadata::code) == Some("AccessDeniedException")
}

/// What a code of DynamoDB means; `None` if it is not known here.
fn said(code: &str, message: &str) -> Option<Meaning> {
    Some(match code {
        "ProvisionedThroughputExceededException" | "ThrottlingException" | "RequestLimitExceeded" => {
            (Unavailable, "throttled: raise the table's capacity if this lasts")
        }
        "InternalServerError"
        | "ServiceUnavailable"
        | "TransactionConflictException"
        | "ReplicatedWriteConflictException"
        | "LimitExceededException"
        | "ResourceInUseException" => (Unavailable, ""),
        "ResourceNotFoundException" => (
            Misconfigured,
            "there is no such table in this account and region, or it is being created: \
             make it with `DynamoStore::create_table`",
        ),
        "AccessDeniedException" => {
            (Refused, "not allowed: grant `dynamodb:GetItem` and `dynamodb:PutItem` on the table")
        }
        "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "IncompleteSignatureException"
        | "MissingAuthenticationTokenException"
        | "MissingAuthenticationToken"
        | "InvalidClientTokenId"
        | "ExpiredTokenException" => (
            Misconfigured,
            "the credentials were not accepted: check them, the region, and the clock of this machine",
        ),
        "ValidationException" if message.contains("Item size") => {
            (TooLarge, "the record is larger than the 400 KB of an item: lower `body_bytes_max`")
        }
        "ValidationException" => (
            Misconfigured,
            "the table is not laid out as the store was told: compare its key and the names of attributes",
        ),
        "ItemCollectionSizeLimitExceededException" => {
            (Refused, "the table's local indexes are full: use a table without them")
        }
        _ => return None,
    })
}

/// What an answer without a code that is known means. A success that cannot be read may be one.
fn of_status(status: u16) -> Meaning {
    match status {
        400..=407 | 409..=428 | 430..=499 => {
            (Refused, "something between here and DynamoDB may have said so")
        }
        _ => (Unavailable, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_retried_and_mistakes_are_not() {
        let kind = |code| said(code, "").map(|(kind, _)| kind);
        assert_eq!(kind("ThrottlingException"), Some(Unavailable));
        assert_eq!(kind("AccessDeniedException"), Some(Refused));
        assert_eq!(kind("ResourceNotFoundException"), Some(Misconfigured));
        assert_eq!(kind("ValidationException"), Some(Misconfigured));
        assert_eq!(kind("SomethingNew"), None);
    }

    #[test]
    fn an_unknown_answer_is_judged_by_its_status() {
        for (status, expected) in [(503, Unavailable), (200, Unavailable), (429, Unavailable), (418, Refused)]
        {
            assert_eq!(of_status(status).0, expected, "{status}");
        }
    }
}
