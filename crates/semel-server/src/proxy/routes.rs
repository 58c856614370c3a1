//! Which route a request belongs to, and the layer that protects it there.
//!
//! 1. The first route whose pattern takes the path has the request; where none does, the defaults hold, and the path
//!    itself is the route in the scope.
//! 2. Where the upstream is told for which host a request is, two hosts are two services: the host stands before the route
//!    in the scope. `per_host` says otherwise, or says it where the upstream is not told.
//! 3. A route whose keys are off has no layer: requests go straight to the upstream.
//! 4. The quota of the defaults is one for all routes that have none of their own: a caller does not get it once for each. A
//!    route may have one of its own, or none.

use super::{
    exchange::{host, plain_host},
    forward::Forward,
    pattern::{Pattern, canonical},
};
use crate::config::{Caller, KeyMode, OnLost, ProxySettings, RouteSettings};
use http::{HeaderName, Method, Request, header::AUTHORIZATION, request::Parts};
use semel::{
    OnLapse, Once,
    http::{self as layer, IDEMPOTENCY_KEY, Idempotency, IdempotencyLayer},
};
use semel_core::sabotage;
use std::sync::Arc;
use tower_layer::Layer;

/// All routes.
pub(super) struct Routes {
    routes: Vec<Arc<Route>>,
    rest: Arc<Route>,
}

/// One route.
pub(super) struct Route {
    /// None for what no route is for.
    pattern: Option<Pattern>,
    methods: Vec<Method>,
    request_bytes_max: u64,
    /// Whether keys are of the host that they were sent to.
    is_per_host: bool,
    /// What tells callers apart; none if nothing does.
    caller_header: Option<HeaderName>,
    /// None if keys are off.
    protected: Option<(IdempotencyLayer, Idempotency<Forward>)>,
}

impl Routes {
    pub(super) fn new(settings: &ProxySettings, once: &Once, forward: &Forward) -> Self {
        // What is made of it counts together.
        let shared = with_quota(IdempotencyLayer::new(once.clone()), &settings.defaults);
        let own = |of: &RouteSettings| with_quota(IdempotencyLayer::new(once.clone()), of);
        let route = |pattern: Option<&Pattern>, of: &RouteSettings, layer: IdempotencyLayer| {
            Arc::new(Route {
                pattern: pattern.cloned(),
                methods: of.methods.clone(),
                request_bytes_max: of.request_bytes_max,
                is_per_host: is_per_host(settings, of),
                caller_header: match &of.caller {
                    Caller::Authorization => Some(AUTHORIZATION),
                    Caller::Header(name) => Some(name.clone()),
                    Caller::Anyone => None,
                },
                protected: (of.key != KeyMode::Off).then(|| {
                    let layer = layer_of(layer, settings, pattern, of);
                    let service = layer.layer(forward.clone());
                    (layer, service)
                }),
            })
        };
        let routes = settings.routes.iter().map(|it| {
            let is_shared = !it.has_own_quota && it.settings.quota_in_force().is_some();
            let layer = if is_shared { shared.clone() } else { own(&it.settings) };
            route(Some(&it.path), &it.settings, layer)
        });
        Self { routes: routes.collect(), rest: route(None, &settings.defaults, shared.clone()) }
    }

    /// The route of a path, in its canonical form.
    pub(super) fn find(&self, path: &str) -> &Arc<Route> {
        let takes = |it: &&Arc<Route>| it.pattern.as_ref().is_some_and(|pattern| pattern.matches(path));
        self.routes.iter().find(takes).unwrap_or(&self.rest)
    }

    /// Resolves when no request with a key is under way.
    pub(super) async fn idle(&self) {
        for route in self.routes.iter().chain([&self.rest]) {
            if let Some((layer, _)) = &route.protected {
                layer.idle().await;
            }
        }
    }
}

impl Route {
    /// As the log calls it.
    pub(super) fn name(&self) -> Option<&str> {
        self.pattern.as_ref().map(Pattern::as_str)
    }

    /// The service that protects it, if any does.
    pub(super) fn protected(&self) -> Option<&Idempotency<Forward>> {
        self.protected.as_ref().map(|(_, service)| service)
    }

    /// The layer that protects it, if any does.
    pub(super) fn layer(&self) -> Option<&IdempotencyLayer> {
        self.protected.as_ref().map(|(layer, _)| layer)
    }

    /// What tells callers apart; none if nothing does.
    pub(super) fn caller_header(&self) -> Option<&HeaderName> {
        self.caller_header.as_ref()
    }

    /// Whether keys are of the host that they were sent to.
    pub(super) fn is_per_host(&self) -> bool {
        self.is_per_host
    }

    /// How much of a request is read into memory, at most: nothing of one that passes through.
    pub(super) fn buffered<B: http_body::Body>(&self, request: &Request<B>) -> Option<u64> {
        let is_read = self.protected.is_some()
            && self.methods.contains(request.method())
            && request.headers().contains_key(IDEMPOTENCY_KEY);
        let announced = request.body().size_hint().exact().unwrap_or(u64::MAX);
        is_read.then(|| announced.min(self.request_bytes_max))
    }
}

fn is_per_host(settings: &ProxySettings, of: &RouteSettings) -> bool {
    let is_so = of.per_host.unwrap_or_else(|| settings.tells_host());
    is_so && !sabotage::is_on("proxy_hosts_share_keys")
}

/// A route as it stands in the scope, behind the host where that is part of it. A route begins with a slash, and a host has
/// none: no two of both are one text.
fn in_scope(route: &str, is_per_host: bool, parts: &Parts) -> String {
    let found =
        if is_per_host { host(&parts.uri, &parts.headers, parts.version).ok().flatten() } else { None };
    let mut text = found.as_ref().map(plain_host).unwrap_or_default();
    text.push_str(route);
    text
}

fn with_quota(layer: IdempotencyLayer, of: &RouteSettings) -> IdempotencyLayer {
    match of.quota_in_force() {
        Some(quota) => layer.quota(quota),
        None => layer,
    }
}

/// A layer that has its quota, as a route wants it.
fn layer_of(
    layer: IdempotencyLayer,
    settings: &ProxySettings,
    pattern: Option<&Pattern>,
    of: &RouteSettings,
) -> IdempotencyLayer {
    let RouteSettings { lease, retention, body_retention, wait, response_wait, .. } = *of;
    let mut layer = layer
        .service_name(&settings.service)
        .mark_answers()
        .methods(of.methods.iter().cloned())
        .caller(match &of.caller {
            Caller::Authorization => layer::Caller::Authorization,
            Caller::Header(name) => layer::Caller::Header(name.clone()),
            Caller::Anyone => layer::Caller::Anyone,
        })
        .fingerprint_headers(of.fingerprint_headers.iter().cloned())
        .request_bytes_max(usize::try_from(of.request_bytes_max).unwrap_or(usize::MAX))
        .response_bytes_max(usize::try_from(of.response_bytes_max).unwrap_or(usize::MAX))
        .response_wait(response_wait)
        .wait(wait)
        .lease(lease)
        .retention(retention)
        .body_retention(body_retention)
        .elsewhere()
        .on_lapse(match of.on_lost {
            OnLost::Retry => OnLapse::Rerun,
            OnLost::Report => OnLapse::Report,
        });
    let is_per_host = is_per_host(settings, of);
    layer = match pattern {
        Some(pattern) => {
            let route = pattern.as_str().to_owned();
            layer.route(move |parts: &Parts| in_scope(&route, is_per_host, parts))
        }
        None => layer.route(move |parts: &Parts| in_scope(&canonical(parts.uri.path()), is_per_host, parts)),
    };
    if of.key == KeyMode::Required {
        layer = layer.required();
    }
    if of.strict {
        layer = layer.strict();
    }
    if of.store_errors {
        layer = layer.store_errors();
    }
    if let Some(names) = &of.replay_headers {
        layer = layer.replay_headers(names.iter().cloned());
    }
    match &settings.problem_base {
        Some(base) => layer.problem_base(base),
        None => layer,
    }
}
