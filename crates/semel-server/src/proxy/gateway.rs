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
use crate::listen::Connection;
use http::{Request, Response};
use http_body::Body as _;
use hyper::{body::Incoming, service::Service};
use semel::{
    BoxFuture,
    http::{Body, InDoubt, Problem, ProblemBase},
};
use std::{convert::Infallible, sync::Arc};

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

impl Service<Request<Incoming>> for Gateway {
    type Response = Response<Logged<Answer>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let inside = Arc::clone(&self.0);
        Box::pin(async move { Ok(inside.logged(request).await) })
    }
}

impl Inside {
    async fn logged(&self, request: Request<Incoming>) -> Response<Logged<Answer>> {
        let found = host(request.uri(), request.headers(), request.version());
        let connection =
            request.extensions().get::<Connection>().expect("the listener puts it there").clone();
        let named = found.clone().ok().flatten();
        let exchange = Arc::new(Exchange::new(connection, named, request.version()));
        let mut entry = Entry::begin(&request, &exchange);
        let path = canonical(request.uri().path()).into_owned();
        if Health::is_reserved(&path) {
            let response = if self.has_admin {
                Problem::NOT_FOUND.response(&self.problems)
            } else {
                self.health.answer(request.method(), &path).await
            };
            return entry.answered(response);
        }
        if found.is_err() {
            return entry.answered(Problem::BAD_REQUEST.response(&self.problems));
        }
        let route = self.routes.find(&path);
        entry.routed(route.name());
        let mut response = self.routed(route, request, &exchange).await;
        if let Some(InDoubt(key)) = response.extensions_mut().remove() {
            self.doubts.told(key, route.name());
        }
        entry.answered(response)
    }

    async fn routed(
        &self,
        route: &Route,
        request: Request<Incoming>,
        exchange: &Arc<Exchange>,
    ) -> Response<Answer> {
        if is_unsupported(request.method(), request.uri()) {
            return Problem::NOT_IMPLEMENTED.response(&self.problems);
        }
        if request.body().size_hint().lower() > self.body_limits.bytes_max {
            return Problem::REQUEST_TOO_LARGE.response(&self.problems);
        }
        let (room, request) = match route.buffered(&request) {
            None => (None, request),
            Some(bytes) => match self.room(route, bytes, request, exchange).await {
                Ok(taken) => taken,
                Err(refused) => return refused,
            },
        };
        let mut request = request.map(|body| Inbound::new(body, self.body_limits, Arc::clone(exchange)));
        request.extensions_mut().insert(Arc::clone(exchange));
        if let Some(room) = room {
            request.extensions_mut().insert(room);
        }
        let answered = if let Some(service) = route.protected() {
            tower_service::Service::call(&mut service.clone(), request).await
        } else {
            strip_own(request.headers_mut());
            let passed =
                tower_service::Service::call(&mut self.forward.clone(), request.map(Body::pass)).await;
            passed.map(|it| it.map(Body::pass))
        };
        match answered {
            Ok(response) => response,
            Err(never) => match never {},
        }
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
