//! What becomes of a request: it is refused, answered here, or handed to its route.

use super::{
    access::{Entry, Logged},
    body::{BodyLimits, Inbound},
    exchange::{Exchange, host},
    forward::{Answer, Forward, is_unsupported},
    headers::strip_own,
    health::Health,
    memory::{Memory, ROOM_WAIT, Room},
    pattern::canonical,
    resolve::Doubts,
    routes::{Route, Routes},
};
use crate::listen::{Arrived, Connection};
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::{body::Incoming, service::Service};
use semel::{
    BoxFuture,
    http::{Body, InDoubt, Problem, ProblemBase},
};
use std::{convert::Infallible, future::ready, sync::Arc};
use tower_service::Service as _;

/// The proxy as a service. Cheap to clone.
#[derive(Clone)]
pub(super) struct Gateway(pub(super) Arc<Inside>);

/// What the proxy consists of.
pub(super) struct Inside {
    pub(super) routes: Routes,
    pub(super) forward: Forward,
    pub(super) health: Arc<Health>,
    /// Whether health is told somewhere else.
    pub(super) has_admin: bool,
    pub(super) body_limits: BodyLimits,
    pub(super) problems: ProblemBase,
    pub(super) memory: Memory,
    pub(super) doubts: Doubts,
}

impl Service<Arrived> for Gateway {
    type Response = Response<Logged<Answer>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, (request, connection): Arrived) -> Self::Future {
        self.0.answer(request, connection)
    }
}

type Answering = BoxFuture<'static, Result<Response<Logged<Answer>>, Infallible>>;

impl Inside {
    /// Answers a request. What its head tells is decided before there is anything to wait for: a future would have room for the
    /// request at each of its steps, and move it from one to the next.
    fn answer(self: &Arc<Self>, request: Request<Incoming>, connection: Connection) -> Answering {
        let found = host(request.uri(), request.headers(), request.version());
        let named = found.clone().ok().flatten();
        let exchange = Arc::new(Exchange::new(connection, named, request.version()));
        let mut entry = Entry::begin(&request, &exchange);
        let path = canonical(request.uri().path());
        if Health::is_reserved(&path) {
            let (method, path) = (request.method().clone(), path.into_owned());
            return self.of_our_own(entry, method, path);
        }
        if found.is_err() {
            return self.refused(entry, Problem::BAD_REQUEST);
        }
        let route = Arc::clone(self.routes.find(&path));
        entry.routed(route.name());
        if is_unsupported(request.method(), request.uri()) {
            return self.refused(entry, Problem::NOT_IMPLEMENTED);
        }
        if request.body().size_hint().lower() > self.body_limits.bytes_max {
            return self.refused(entry, Problem::REQUEST_TOO_LARGE);
        }
        match route.buffered(&request) {
            None => self.routed(entry, route, request, exchange),
            Some(bytes) => self.routed_with_room(entry, route, bytes, request, exchange),
        }
    }

    fn of_our_own(self: &Arc<Self>, entry: Entry, method: Method, path: String) -> Answering {
        if self.has_admin {
            return self.refused(entry, Problem::NOT_FOUND);
        }
        let health = Arc::clone(&self.health);
        Box::pin(async move { Ok(entry.answered(health.answer(&method, &path).await)) })
    }

    fn refused(&self, entry: Entry, problem: Problem) -> Answering {
        Box::pin(ready(Ok(entry.answered(problem.response(&self.problems)))))
    }

    /// Hands a request to its route.
    fn routed(
        self: &Arc<Self>,
        entry: Entry,
        route: Arc<Route>,
        request: Request<Incoming>,
        exchange: Arc<Exchange>,
    ) -> Answering {
        let mut request = request.map(|body| Inbound::new(body, self.body_limits, exchange));
        if let Some(service) = route.protected() {
            let answering = service.clone().call(request);
            return self.answered(entry, route, answering);
        }
        strip_own(request.headers_mut());
        let passing = self.forward.clone().call(request.map(Body::pass));
        self.answered(entry, route, async { passing.await.map(|it| it.map(Body::pass)) })
    }

    /// As [`Inside::routed`], when there is room for the body.
    fn routed_with_room(
        self: &Arc<Self>,
        entry: Entry,
        route: Arc<Route>,
        bytes: u64,
        request: Request<Incoming>,
        exchange: Arc<Exchange>,
    ) -> Answering {
        let inside = Arc::clone(self);
        Box::pin(async move {
            match inside.room(&route, bytes, request, &exchange).await {
                Ok((room, mut request)) => {
                    // Its body, which knows, is read before it is forwarded.
                    request.extensions_mut().insert(Arc::clone(&exchange));
                    if let Some(room) = room {
                        request.extensions_mut().insert(room);
                    }
                    inside.routed(entry, route, request, exchange).await
                }
                Err(refused) => Ok(entry.answered(refused)),
            }
        })
    }

    /// The answer, when it is there.
    fn answered(
        self: &Arc<Self>,
        entry: Entry,
        route: Arc<Route>,
        answering: impl Future<Output = Result<Response<Answer>, Infallible>> + Send + 'static,
    ) -> Answering {
        let inside = Arc::clone(self);
        Box::pin(async move {
            let mut response = answering.await?;
            if let Some(InDoubt(key)) = response.extensions_mut().remove() {
                inside.doubts.told(key, route.name());
            }
            Ok(entry.answered(response))
        })
    }

    /// Room for the body of a request with a key.
    async fn room(
        &self,
        route: &Route,
        bytes: u64,
        request: Request<Incoming>,
        exchange: &Exchange,
    ) -> Result<(Option<Room>, Request<Incoming>), Response<Answer>> {
        let peer = exchange.connection.peer().ip();
        let address = Some(peer).filter(|peer| !self.forward.trusts(*peer));
        if let Some(room) = self.memory.try_take(bytes, address) {
            return Ok((Some(room), request));
        }
        // What will be refused by its head does not wait for room that it does not need.
        let (parts, body) = request.into_parts();
        let is_refused = route.layer().is_some_and(|it| it.key_of(&parts).is_err());
        let request = Request::from_parts(parts, body);
        if is_refused {
            return Ok((None, request));
        }
        let busy = || Problem::BUSY.response_after(&self.problems, ROOM_WAIT);
        let room = self.memory.take(bytes, address).await.ok_or_else(busy)?;
        Ok((Some(room), request))
    }
}
