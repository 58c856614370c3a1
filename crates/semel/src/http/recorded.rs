//! What is on record of a request, for operators.

use super::stored::{Stored, Unkept, decode};
use crate::{error::Error, operator::Snapshot};
use ::http::StatusCode;
use bytes::Bytes;

/// What is on record of a request that was carried out.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use semel::{Once, http::{IdempotencyLayer, Recorded, RecordedBody}};
/// use std::convert::Infallible;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let once = Once::memory();
/// let layer = IdempotencyLayer::new(once.clone()).response_bytes_max(10);
/// let list = layer.layer(service_fn(async |_request| {
///     Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("more than ten bytes")))
/// }));
/// let request = Request::post("/lists").header("authorization", "Bearer ann").header("idempotency-key", "\"8e03978e\"");
/// let request = request.body(Full::<Bytes>::default()).unwrap();
/// let (parts, _) = request.clone().into_parts();
/// list.oneshot(request).await.unwrap();
///
/// let key = layer.key_of(&parts).unwrap().expect("it has a key");
/// let record = once.get_key(&key).await.unwrap().expect("it was carried out");
/// let recorded = Recorded::of(&record).expect("it was answered").unwrap();
/// let RecordedBody::NotKept(unkept) = recorded.body else { panic!("it was too long") };
/// assert_eq!((recorded.status.as_u16(), unkept.size, unkept.read), (200, Some(19), 19));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// Of the response.
    pub status: StatusCode,
    /// What is there of its body.
    pub body: RecordedBody,
}

/// What is on record of the body of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedBody {
    /// It is kept.
    Kept {
        /// How many bytes it has.
        size: u64,
    },
    /// It is not, and this is known of it.
    NotKept(Unkept),
}

impl Recorded {
    /// What this record says; `None` if it is not completed, or no record of a request. An error if the response was kept and is
    /// not there any more, or was too large for the store itself: the error says how large.
    pub fn of(snapshot: &Snapshot) -> Option<Result<Self, Error>> {
        let stored = match snapshot.bytes()? {
            Ok(stored) => Bytes::from(stored),
            Err(error) => return Some(Err(error)),
        };
        decode(&stored).map(|stored| {
            Ok(match stored {
                Stored::Kept(kept) => {
                    Self { status: kept.status, body: RecordedBody::Kept { size: kept.body.len() as u64 } }
                }
                Stored::NotKept { status, unkept } => Self { status, body: RecordedBody::NotKept(unkept) },
            })
        })
    }
}
