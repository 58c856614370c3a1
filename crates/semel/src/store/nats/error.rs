//! What NATS says, as the kind of trouble it is and what to do about it.

use async_nats::{
    ConnectError, ConnectErrorKind,
    jetstream::{
        Error as Answer, ErrorCode,
        context::{
            CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind, KeyValueError,
            KeyValueErrorKind, PublishError, PublishErrorKind, RequestError, RequestErrorKind,
        },
        stream::{LastRawMessageError, LastRawMessageErrorKind},
    },
};
use semel_core::{
    store::{
        StoreError,
        StoreErrorKind::{self, Corrupt, Misconfigured, Refused, TooLarge, Unavailable},
    },
    wire::WireError,
};
use std::error::Error as StdError;

const STORE: &str = "nats";

type Verdict = (StoreErrorKind, &'static str);

const SILENT: Verdict = (
    Unavailable,
    "no answer; if it stays so, check that the server runs, and that the user may publish to `$KV.` and `$JS.API.`",
);
const NO_STREAM: Verdict = (Misconfigured, "there is no such bucket: make it with `Bucket::create`");
const NO_JETSTREAM: Verdict =
    (Misconfigured, "the server has no JetStream: start it with `-js`, or enable it for the account");

const BAD_URL: &str = "check the URL, which looks like nats://user:password@host:4222";

pub(super) fn misconfigured_url() -> StoreError {
    misconfigured(format!("connect to NATS: {BAD_URL}"))
}

pub(super) fn misconfigured(context: impl Into<String>) -> StoreError {
    StoreError::new(Misconfigured, STORE, context)
}

pub(super) fn corrupt(what: &str) -> StoreError {
    StoreError::new(Corrupt, STORE, format!("read a record: found {what}"))
}

/// A swap that was lost to a write which never came to be seen.
pub(super) fn undecided() -> StoreError {
    StoreError::new(Unavailable, STORE, "swap a record: another write is under way and does not end")
}

/// A record's bytes that cannot be read.
pub(super) fn unreadable(error: WireError) -> StoreError {
    crate::store::unreadable::unreadable(STORE, "read a record", error)
}

fn trouble(doing: &str, verdict: Verdict, error: impl StdError + Send + Sync + 'static) -> StoreError {
    let (kind, remedy) = verdict;
    StoreError::new(kind, STORE, format!("{doing}: {remedy}")).because(error)
}

pub(super) fn connecting(error: ConnectError) -> StoreError {
    let verdict = match error.kind() {
        ConnectErrorKind::ServerParse => (Misconfigured, BAD_URL),
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            (Misconfigured, "check the user name and the password in the URL")
        }
        ConnectErrorKind::Tls => (Misconfigured, "check the certificates, and whether the server wants TLS"),
        ConnectErrorKind::Dns
        | ConnectErrorKind::TimedOut
        | ConnectErrorKind::Io
        | ConnectErrorKind::MaxReconnects => {
            (Unavailable, "no answer; if it stays so, check that the server runs at this host and port")
        }
    };
    trouble("connect to NATS", verdict, error)
}

pub(super) fn finding(bucket: &str, error: KeyValueError) -> StoreError {
    let source = StdError::source(&error).and_then(|it| it.downcast_ref::<GetStreamError>());
    let verdict = match (error.kind(), source.map(GetStreamError::kind)) {
        (_, Some(GetStreamErrorKind::JetStream(answer))) => judge(&answer),
        (_, Some(GetStreamErrorKind::Request)) => requested(source.and_then(StdError::source)),
        (KeyValueErrorKind::InvalidStoreName, _) => {
            (Misconfigured, "a name has letters, digits, `-` and `_` only, and must be a bucket's")
        }
        _ => SILENT,
    };
    trouble(&format!("open the bucket `{bucket}`"), verdict, error)
}

pub(super) fn creating(bucket: &str, error: CreateStreamError) -> StoreError {
    let verdict = match error.kind() {
        CreateStreamErrorKind::JetStream(answer) => judge(&answer),
        CreateStreamErrorKind::JetStreamUnavailable => NO_JETSTREAM,
        CreateStreamErrorKind::EmptyStreamName | CreateStreamErrorKind::InvalidStreamName => {
            (Misconfigured, "a name has letters, digits, `-` and `_` only")
        }
        _ => SILENT,
    };
    trouble(&format!("make the bucket `{bucket}`"), verdict, error)
}

pub(super) fn asking(what: &str, error: RequestError) -> StoreError {
    trouble(&format!("ask for {what}"), requested(Some(&error)), error)
}

pub(super) fn loading(error: LastRawMessageError) -> StoreError {
    let verdict = match error.kind() {
        LastRawMessageErrorKind::JetStream(answer) => judge(&answer),
        _ => SILENT,
    };
    trouble("load a record", verdict, error)
}

pub(super) fn publishing(error: PublishError) -> StoreError {
    let verdict = match (error.kind(), answer_of(&error)) {
        (_, Some(answer)) => judge(answer),
        // So it is, for a moment, when the stream has no leader.
        (PublishErrorKind::StreamNotFound, _) => {
            (Unavailable, "nobody keeps this bucket now; if it stays so, check that it is there")
        }
        (PublishErrorKind::MaxPayloadExceeded, _) => (
            TooLarge,
            "the record is larger than the server's `max_payload`: raise it, or keep smaller results",
        ),
        (PublishErrorKind::MaxAckPending, _) => (Unavailable, "too many writes are under way"),
        _ => SILENT,
    };
    trouble("swap a record", verdict, error)
}

/// Whether another message was the last of its subject.
pub(super) fn is_lost(error: &PublishError) -> bool {
    let code = answer_of(error).map(Answer::error_code);
    error.kind() == PublishErrorKind::WrongLastSequence
        // What replicated streams say instead.
        || code == Some(ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
}

fn answer_of(error: &PublishError) -> Option<&Answer> {
    StdError::source(error).and_then(|it| it.downcast_ref())
}

fn requested(error: Option<&(dyn StdError + 'static)>) -> Verdict {
    match error.and_then(|it| it.downcast_ref::<RequestError>()).map(RequestError::kind) {
        Some(RequestErrorKind::NoResponders) => NO_JETSTREAM,
        Some(RequestErrorKind::TimedOut | RequestErrorKind::InvalidSubject | RequestErrorKind::Other)
        | None => SILENT,
    }
}

/// What JetStream answered.
fn judge(answer: &Answer) -> Verdict {
    match answer.error_code() {
        ErrorCode::STREAM_NOT_FOUND => NO_STREAM,
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => NO_JETSTREAM,
        ErrorCode::STREAM_STORE_FAILED
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::NO_LIMITS => (
            Refused,
            "the bucket, the account or the disk is full: raise its limits, or keep records for less long",
        ),
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => (
            TooLarge,
            "the record is larger than the bucket's `max_msg_size`: raise it, or keep smaller results",
        ),
        ErrorCode::STREAM_SEALED => (Refused, "the bucket is sealed"),
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED | ErrorCode::CLUSTER_NO_PEERS => {
            (Misconfigured, "there are fewer servers than replicas were asked for")
        }
        ErrorCode::MESSAGE_TTL_DISABLED | ErrorCode::MESSAGE_TTL_INVALID => {
            (Misconfigured, "the bucket has no `allow_msg_ttl`: make it with `Bucket::create`")
        }
        ErrorCode::STREAM_SUBJECT_OVERLAP | ErrorCode::STREAM_INVALID_CONFIG => {
            (Misconfigured, "another stream has these subjects, or the server does not know such a bucket")
        }
        // No leader, a server on its way down or up, too much at once.
        _ => (Unavailable, "the server could not do it now"),
    }
}
