//! Firestore's credentials, as machines of Google have them.
//!
//! 1. `FIRESTORE_EMULATOR_HOST` leads to an emulator, which wants none.
//! 2. Elsewhere the metadata server gives a token for the service account that the machine runs as: on Cloud Run, GKE,
//!    Compute Engine. `GCE_METADATA_HOST` says where it is, if not where it always is.
//! 3. A token is kept until shortly before it expires.
//!
//! It does not read key files of service accounts: run where there is a metadata server, or use the library.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use semel::{StoreError, store::firestore::FirestoreStore};
use std::{
    env,
    error::Error as StdError,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

type BoxError = Box<dyn StdError + Send + Sync>;

/// How long before its end a token is replaced.
const MARGIN: Duration = Duration::from_mins(1);
/// Largest answer of the metadata server.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long the metadata server may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The store of this project.
pub(super) fn firestore(project: &str) -> Result<FirestoreStore, StoreError> {
    if let Ok(host) = env::var("FIRESTORE_EMULATOR_HOST") {
        return Ok(FirestoreStore::emulator(&host, project));
    }
    let host = env::var("GCE_METADATA_HOST").unwrap_or_else(|_| "metadata.google.internal".to_owned());
    let tokens = Arc::new(Tokens::new(&host));
    FirestoreStore::new(project, move || {
        let tokens = Arc::clone(&tokens);
        async move { tokens.get().await }
    })
}

/// Tokens of a metadata server.
struct Tokens {
    url: String,
    client: Client<HttpConnector, Empty<Bytes>>,
    /// The last one, and until when it is good.
    kept: Mutex<Option<(String, Instant)>>,
}

impl Tokens {
    fn new(host: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(ANSWER_MAX));
        Self {
            url: format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token"),
            client: Client::builder(TokioExecutor::new()).build(connector),
            kept: Mutex::new(None),
        }
    }

    async fn get(&self) -> Result<String, BoxError> {
        let mut kept = self.kept.lock().await;
        if let Some((token, until)) = &*kept
            && Instant::now() < *until
        {
            return Ok(token.clone());
        }
        let answer = tokio::time::timeout(ANSWER_MAX, self.ask())
            .await
            .map_err(|_| "the metadata server is silent")??;
        let (token, life) = told(&answer).ok_or("the metadata server's answer is no token")?;
        *kept = Some((token.clone(), Instant::now() + life.saturating_sub(MARGIN)));
        Ok(token)
    }

    async fn ask(&self) -> Result<Bytes, BoxError> {
        let request = Request::get(&self.url).header("metadata-flavor", "Google").body(Empty::new())?;
        let response = self.client.request(request).await?;
        if !response.status().is_success() {
            return Err(format!("the metadata server answered {}", response.status()).into());
        }
        Ok(Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes())
    }
}

/// The token in an answer, and how long it is good for.
fn told(answer: &[u8]) -> Option<(String, Duration)> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    let token = answer.get("access_token")?.as_str()?.to_owned();
    Some((token, Duration::from_secs(answer.get("expires_in")?.as_u64()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_token_and_its_life() {
        let answer = br#"{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}"#;
        assert_eq!(told(answer), Some(("ya29.x".to_owned(), Duration::from_secs(3_599))));
        for wrong in ["", "{}", r#"{"access_token":"x"}"#, r#"{"access_token":1,"expires_in":1}"#] {
            assert_eq!(told(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
