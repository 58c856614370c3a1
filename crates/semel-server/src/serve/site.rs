//! What is at which address.
//!
//! 1. A path has one form: what could be read as another path is not found.
//! 2. Whatever is wrong with a request is told as a problem.
//! 3. Nothing that is answered runs in a browser, whoever said it first.
//! 4. Who asks for metrics shows who they are, as for everything below `/v1`. Probes have no tokens: `/health`, `/ready` and
//!    `/version` are open, and tell nothing but what they are asked for.

use super::{Answer, Foundation, access::Entry, health::Health, metrics::metrics};
use crate::{
    api::Clerk,
    config::Network,
    ingest::{
        Ingest, Noted,
        problems::{BAD_REQUEST, METHOD, NOT_FOUND, told},
    },
    listen::{Arrived, Connection},
    problem::harden,
};
use http::{
    HeaderValue, Method, Request, Response, Version,
    header::{ALLOW, HOST},
};
use hyper::{body::Incoming, service::Service};
use semel::{BoxFuture, http::ProblemBase};
use semel_core::sabotage::is_on;
use std::{convert::Infallible, net::IpAddr, sync::Arc};

/// Which addresses are answered here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// Events, and everything else.
    Both,
    /// Events alone: the rest has an address of its own.
    Events,
    /// The rest.
    Admin,
}

/// A side of the server, as a service. Cheap to clone.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) side: Side,
    pub(super) inside: Arc<Inside>,
}

/// What the server consists of.
pub(super) struct Inside {
    pub(super) ingest: Ingest,
    pub(super) health: Health,
    pub(super) api: Clerk,
    pub(super) foundation: Arc<Foundation>,
    /// Many senders stand behind each of these: they have no share of their own.
    pub(super) trusted: Vec<Network>,
    pub(super) problems: ProblemBase,
}

/// What a path means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place<'a> {
    Events,
    Source(&'a str),
    Health,
    Ready,
    Version,
    Metrics,
    Api,
    Nowhere,
}

impl<'a> Place<'a> {
    /// What is at a path, as it is written: nothing is decoded, so nothing can be read in two ways.
    fn of(path: &'a str) -> Self {
        match path {
            "/events" => Self::Events,
            "/health" => Self::Health,
            "/ready" => Self::Ready,
            "/version" => Self::Version,
            "/metrics" => Self::Metrics,
            "/v1" => Self::Api,
            _ if path.starts_with("/v1/") => Self::Api,
            _ => match path.strip_prefix("/sources/") {
                Some(name) if !name.is_empty() && !name.contains('/') => Self::Source(name),
                Some(_) | None => Self::Nowhere,
            },
        }
    }

    fn is_on(self, side: Side) -> bool {
        let is_ingest = matches!(self, Self::Events | Self::Source(_));
        match side {
            Side::Both => true,
            Side::Events | Side::Admin if is_on("serve_has_one_side") => true,
            Side::Events => is_ingest,
            Side::Admin => !is_ingest,
        }
    }
}

impl Service<Arrived> for Site {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, (request, connection): Arrived) -> Self::Future {
        let (inside, side) = (Arc::clone(&self.inside), self.side);
        Box::pin(async move {
            let entry = Entry::begin(&request, &connection);
            let (mut response, noted) = inside.answer(side, request, connection).await;
            if !is_on("answers_run_in_browsers") {
                harden(response.headers_mut());
            }
            Entry::end(entry, &response, &noted);
            Ok(response)
        })
    }
}

impl Inside {
    async fn answer(
        &self,
        side: Side,
        request: Request<Incoming>,
        connection: Connection,
    ) -> (Response<Answer>, Noted) {
        if !names_one_host(&request) {
            return (told(&BAD_REQUEST, &self.problems), Noted::default());
        }
        let uri = request.uri().clone();
        let place = Some(Place::of(uri.path())).filter(|it| it.is_on(side)).unwrap_or(Place::Nowhere);
        let response = match place {
            Place::Events => return self.ingest.answer(None, request, self.address(&connection)).await,
            Place::Source(name) => {
                return self.ingest.answer(Some(name), request, self.address(&connection)).await;
            }
            // Boxed, so that events, of which there are most, do not carry room for it.
            Place::Api => Box::pin(self.api.answer((request, connection))).await,
            Place::Nowhere => told(&NOT_FOUND, &self.problems),
            Place::Health | Place::Ready | Place::Version | Place::Metrics
                if !matches!(*request.method(), Method::GET | Method::HEAD) =>
            {
                let mut response = told(&METHOD, &self.problems);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                response
            }
            Place::Health => Health::healthy(),
            Place::Ready => Box::pin(self.health.ready(&self.problems)).await,
            Place::Version => Health::version(),
            Place::Metrics => match self.refusal(&request, &connection) {
                Some(refusal) => refusal,
                None => Box::pin(metrics(&self.ingest, &self.foundation)).await,
            },
        };
        (response, Noted::default())
    }

    /// What somebody is told instead of the metrics, if they may not see them.
    fn refusal<B>(&self, request: &Request<B>, connection: &Connection) -> Option<Response<Answer>> {
        self.api.refusal(request, connection).filter(|_| !is_on("metrics_for_everybody"))
    }

    /// Whose share of the memory a request takes of, if it is one sender's.
    fn address(&self, connection: &Connection) -> Option<IpAddr> {
        let peer = connection.peer().ip();
        let is_trusted = self.trusted.iter().any(|it| it.contains(peer));
        (!is_trusted && !is_on("one_sender_takes_all_memory")).then_some(peer)
    }
}

/// Whether a request says once for whom it is. HTTP/1.0 need not.
fn names_one_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next(), request.uri().authority()) {
        (_, Some(_), _) => false,
        (Some(host), None, _) => !host.is_empty() && !host.as_bytes().contains(&b'@'),
        (None, None, Some(_)) => true,
        (None, None, None) => request.version() != Version::HTTP_11,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_form() {
        assert_eq!(Place::of("/events"), Place::Events);
        assert_eq!(Place::of("/sources/stripe"), Place::Source("stripe"));
        assert_eq!(Place::of("/v1/executions"), Place::Api);
        for path in [
            "/",
            "/events/",
            "//events",
            "/Events",
            "/events;a",
            "/%65vents",
            "/./events",
            "/events%00",
            "/sources",
            "/sources/",
            "/sources/a/b",
            "/sources/../events",
            "/x/..%2fevents",
            "/v1x",
            "/healthz",
        ] {
            assert_eq!(Place::of(path), Place::Nowhere, "{path}");
        }
    }

    #[test]
    fn with_an_address_of_its_own_the_rest_is_not_where_events_are() {
        let all = [Place::Events, Place::Source("a"), Place::Health, Place::Metrics, Place::Api];
        for place in all {
            assert!(place.is_on(Side::Both));
            assert_ne!(place.is_on(Side::Events), place.is_on(Side::Admin), "{place:?}");
        }
        assert!(Place::Events.is_on(Side::Events) && Place::Api.is_on(Side::Admin));
    }
}
