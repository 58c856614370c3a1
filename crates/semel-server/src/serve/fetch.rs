//! Everything that goes out: calls of functions, and the keys and certificates that signatures are checked with.
//!
//! 1. All of it goes through one client, behind one guard.
//! 2. A new guard takes the place of the old one with a client of its own: no connection outlives what it was allowed by,
//!    except for what is under way.

use crate::ingest::Fetch;
use bytes::Bytes;
use http::StatusCode;
use semel::BoxFuture;
use semel_events::auth::sns::Roots;
use semel_runtime::deliver::{
    Answer, BoxedAnswer, Client, Deliver, Delivery, Proxies, Settings,
    guard::{Policy, check_url},
};
use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// How long fetching may take.
const FETCH_MAX: Duration = Duration::from_secs(10);

/// The way out.
pub(super) struct Outgoing {
    proxies: Proxies,
    current: RwLock<(Arc<Client>, Policy)>,
}

impl Outgoing {
    pub(super) fn new(policy: Policy, proxies: Proxies) -> Self {
        Self { current: RwLock::new((client(&policy, &proxies), policy)), proxies }
    }

    /// From now on this is the guard.
    pub(super) fn replace(&self, policy: Policy) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.1 != policy {
            *current = (client(&policy, &self.proxies), policy);
        }
    }

    fn client(&self) -> Arc<Client> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// What it lets through now.
    pub(super) fn policy(&self) -> Policy {
        self.current.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

fn client(policy: &Policy, proxies: &Proxies) -> Arc<Client> {
    let settings = Settings { policy: policy.clone(), proxies: proxies.clone(), ..Settings::default() };
    Arc::new(Client::new(settings))
}

impl Deliver for Outgoing {
    fn deliver(&self, delivery: Delivery) -> BoxedAnswer<'_> {
        self.client().deliver_for(delivery)
    }
}

impl Fetch for Outgoing {
    fn roots(&self) -> Roots {
        Roots::of_anchors(self.client().roots().roots.clone())
    }

    fn fetch<'a>(&'a self, url: &'a str, bytes_max: usize) -> BoxFuture<'a, Result<Bytes, String>> {
        let (client, policy) = (self.client(), self.policy());
        Box::pin(async move {
            let target = check_url(url, &policy).map_err(|refusal| refusal.to_string())?;
            match client.get(target, FETCH_MAX).await {
                Answer::Status(status) if status.code != StatusCode::OK => {
                    Err(format!("answered {}", status.code))
                }
                Answer::Status(status) if status.is_truncated || status.body.len() > bytes_max => {
                    Err("the answer is too large".to_owned())
                }
                Answer::Status(status) => Ok(status.body),
                Answer::NotSent(cause) | Answer::Broken(cause) => Err(cause.to_string()),
                Answer::TimedOut(_) => Err("no answer in time".to_owned()),
            }
        })
    }
}
