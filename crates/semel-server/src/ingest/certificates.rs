//! Certificates that messages are signed with, by their URL.
//!
//! 1. What is at a URL is fetched once, and, if it is not there, at most once in [`FETCH_EVERY`], however many messages name
//!    it. Those who come meanwhile wait for it.
//! 2. A URL that is of no use keeps no other from being fetched.
//! 3. At most [`URLS_MAX`] are remembered. Anybody can name URLs, but only SNS can sign: one whose certificate has verified a
//!    message makes room for no other that has not.

use super::auth::{FETCH_EVERY, Fetch};
use bytes::Bytes;
use semel_core::sabotage::is_on;
use semel_events::auth::sns::CERTIFICATE_BYTES_MAX;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use tokio::time::Instant;
use tracing::warn;

/// Most URLs of a source that are remembered: more than SNS has regions.
const URLS_MAX: usize = 64;

pub(super) struct Certificates {
    fetch: Arc<dyn Fetch>,
    /// The latest last.
    entries: Mutex<Vec<Arc<Entry>>>,
}

/// What is known of a URL.
struct Entry {
    url: Box<str>,
    /// Whether it has verified a message.
    is_proven: AtomicBool,
    /// Held while it is being fetched.
    fetched: tokio::sync::Mutex<Fetched>,
}

/// When somebody tried last, and what was there.
#[derive(Default)]
struct Fetched {
    at: Option<Instant>,
    pem: Option<Bytes>,
}

impl Fetched {
    fn was_tried(&self) -> bool {
        self.at.is_some_and(|it| it.elapsed() < FETCH_EVERY)
    }
}

/// A certificate that was fetched.
pub(super) struct Certificate {
    entry: Arc<Entry>,
    pem: Bytes,
}

impl Certificate {
    /// The file, as it was fetched.
    pub(super) fn pem(&self) -> &[u8] {
        &self.pem
    }

    /// It has verified a message.
    pub(super) fn has_proven_itself(&self) {
        self.entry.is_proven.store(true, Ordering::Relaxed);
    }
}

impl Certificates {
    pub(super) fn new(fetch: Arc<dyn Fetch>) -> Self {
        Self { fetch, entries: Mutex::default() }
    }

    pub(super) const fn fetch(&self) -> &Arc<dyn Fetch> {
        &self.fetch
    }

    /// The certificate at a URL, which was checked.
    pub(super) async fn get(&self, url: &str) -> Option<Certificate> {
        let entry = self.entry(if is_on("ingest_one_url_blocks_another") { "" } else { url })?;
        let mut fetched = entry.fetched.lock().await;
        if fetched.pem.is_none() && (!fetched.was_tried() || is_on("ingest_fetches_keys_each_time")) {
            fetched.at = Some(Instant::now());
            match self.fetch.fetch(url, CERTIFICATE_BYTES_MAX).await {
                Ok(pem) => fetched.pem = Some(pem),
                Err(error) => warn!(url, error, "a certificate cannot be fetched"),
            }
        }
        let pem = fetched.pem.clone()?;
        drop(fetched);
        Some(Certificate { entry, pem })
    }

    /// What is known of a URL; nothing if so many others were named lately that there is no room for it.
    fn entry(&self, url: &str) -> Option<Arc<Entry>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = entries.iter().find(|it| *it.url == *url) {
            return Some(Arc::clone(known));
        }
        if entries.len() == URLS_MAX {
            let gone = entries.iter().position(|it| may_go(it))?;
            entries.remove(gone);
        }
        let (url, is_proven) = (url.into(), AtomicBool::new(false));
        let entry = Arc::new(Entry { url, is_proven, fetched: tokio::sync::Mutex::default() });
        entries.push(Arc::clone(&entry));
        Some(entry)
    }
}

/// Whether an entry is worth nothing: nobody fetches it now or did so lately, and it has verified nothing.
fn may_go(entry: &Entry) -> bool {
    let is_over = entry.fetched.try_lock().is_ok_and(|it| !it.was_tried());
    is_over && !entry.is_proven.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel::BoxFuture;
    use semel_events::auth::sns::Roots;
    use std::collections::BTreeMap;

    /// Counts what is asked for, and finds it, unless it is said to be missing.
    #[derive(Default)]
    struct Counting(Mutex<BTreeMap<String, usize>>);

    impl Counting {
        fn asked(&self) -> usize {
            self.0.lock().unwrap().values().sum()
        }
    }

    impl Fetch for Counting {
        fn roots(&self) -> Roots {
            Roots::of_anchors(Vec::new())
        }

        fn fetch<'a>(&'a self, url: &'a str, _: usize) -> BoxFuture<'a, Result<Bytes, String>> {
            *self.0.lock().unwrap().entry(url.to_owned()).or_default() += 1;
            let is_missing = url.starts_with("missing");
            let found = if is_missing { Err("nobody".to_owned()) } else { Ok(Bytes::from_static(b"found")) };
            Box::pin(async move { found })
        }
    }

    fn certificates() -> (Arc<Counting>, Certificates) {
        let counting = Arc::<Counting>::default();
        (Arc::clone(&counting), Certificates::new(counting))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_there_is_asked_for_once_a_minute() {
        let (counting, certificates) = certificates();
        for _ in 0..100 {
            assert!(certificates.get("missing").await.is_none());
        }
        assert_eq!(counting.asked(), 1);
        tokio::time::advance(FETCH_EVERY).await;
        assert!(certificates.get("missing").await.is_none());
        assert_eq!(counting.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_there_is_asked_for_once_whatever_is_missing_beside_it() {
        let (counting, certificates) = certificates();
        for number in 0..10 {
            assert!(certificates.get(&format!("missing {number}")).await.is_none());
            for _ in 0..3 {
                let found = certificates.get(&number.to_string()).await;
                assert_eq!(found.expect("it is there").pem(), b"found");
            }
        }
        assert_eq!(counting.asked(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_urls_are_remembered_and_what_has_proven_itself_goes_for_none_that_has_not() {
        let (counting, certificates) = certificates();
        certificates.get("proven").await.expect("it is there").has_proven_itself();
        for number in 0..1_000 {
            drop(certificates.get(&format!("missing {number}")).await);
        }
        assert_eq!(counting.asked(), URLS_MAX, "no more than these in a minute");
        assert!(certificates.get("proven").await.is_some());
        tokio::time::advance(FETCH_EVERY).await;
        for number in 1_000..2_000 {
            drop(certificates.get(&format!("missing {number}")).await);
        }
        assert!(certificates.get("proven").await.is_some());
        assert_eq!(counting.asked(), 2 * URLS_MAX - 1);
        assert_eq!(certificates.entries.lock().unwrap().len(), URLS_MAX);
    }
}
