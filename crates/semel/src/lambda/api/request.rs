//! A gateway's event, as the request that it stands for.
//!
//! 1. Three forms are known: that of REST APIs and load balancers (1.0), that of HTTP APIs and function URLs (2.0), and
//!    of both the parts that matter here.
//! 2. The route is the gateway's (`/orders/{id}`), where it has one that is not a catch-all, else the path.
//! 3. What only Semel may say is taken off the request before the handler sees it.

use crate::{
    http::{Caller, is_own},
    lambda::{error::Fault, pick::Pick},
};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, request};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use semel_core::{key::Part, sabotage};
use serde::Deserialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// What a gateway says about a request beside the request itself: its `requestContext`. It is among the extensions that
/// [`Caller::from_fn`] sees.
#[derive(Clone, Debug)]
pub struct RequestContext(Arc<RawValue>);

impl RequestContext {
    /// As JSON.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

/// A request.
pub(super) struct Request {
    /// Method, headers, and the context among its extensions.
    pub(super) parts: request::Parts,
    pub(super) route: String,
    pub(super) path_and_query: String,
    pub(super) body: Vec<u8>,
    /// Whether the answer's headers have lists of values: a load balancer may want that.
    pub(super) is_multi: bool,
    context: Arc<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    // 1.0
    http_method: Option<String>,
    path: Option<String>,
    resource: Option<String>,
    multi_value_headers: Option<BTreeMap<String, Option<Vec<String>>>>,
    query_string_parameters: Option<BTreeMap<String, Option<String>>>,
    multi_value_query_string_parameters: Option<BTreeMap<String, Option<Vec<String>>>>,
    // 2.0
    raw_path: Option<String>,
    raw_query_string: Option<String>,
    route_key: Option<String>,
    // Both.
    headers: Option<BTreeMap<String, Option<String>>>,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
    #[serde(borrow)]
    request_context: Option<&'a RawValue>,
}

/// Of the context, in form 2.0.
#[derive(Deserialize, Default)]
struct ContextOfTwo {
    http: Option<MethodOfTwo>,
}

#[derive(Deserialize)]
struct MethodOfTwo {
    method: String,
}

impl Request {
    pub(super) fn read(json: &RawValue) -> Result<Self, Fault> {
        let not_one = |why: &str| Fault::Event(format!("the event is not a gateway's request: {why}"));
        let event: Event<'_> =
            serde_json::from_str(json.get()).map_err(|error| not_one(&error.to_string()))?;
        let context = event.request_context.unwrap_or(RawValue::NULL).to_owned();
        let of_two: Option<ContextOfTwo> = serde_json::from_str(context.get()).ok();
        let of_two = of_two.and_then(|it| it.http);
        let method = event.http_method.as_deref().or(of_two.as_ref().map(|it| it.method.as_str()));
        let method =
            method.and_then(|it| it.parse::<Method>().ok()).ok_or_else(|| not_one("it has no method"))?;
        let path = event.raw_path.as_deref().or(event.path.as_deref()).unwrap_or("/");
        let context: Arc<RawValue> = context.into();
        let mut request = ::http::Request::new(());
        *request.method_mut() = method;
        *request.headers_mut() = event.headers();
        request.extensions_mut().insert(RequestContext(Arc::clone(&context)));
        Ok(Self {
            parts: request.into_parts().0,
            route: event.route().unwrap_or(path).to_owned(),
            path_and_query: format!("{path}?{}", event.query()),
            is_multi: event.headers.is_none() && event.multi_value_headers.is_some(),
            body: event.body()?,
            context,
        })
    }

    /// The event, without what only Semel may say.
    pub(super) fn event<'a>(&self, json: &'a RawValue) -> Result<Cow<'a, RawValue>, Fault> {
        if !self.parts.headers.keys().any(is_own) {
            return Ok(Cow::Borrowed(json));
        }
        let unreadable = |error: serde_json::Error| Fault::Event(error.to_string());
        let mut event: Value = serde_json::from_str(json.get()).map_err(unreadable)?;
        for member in ["headers", "multiValueHeaders"] {
            if let Some(Value::Object(headers)) = event.get_mut(member) {
                headers.retain(|name, _| !is_own_name(name));
            }
        }
        to_raw_value(&event).map(Cow::Owned).map_err(unreadable)
    }

    /// Whom the gateway knows to have sent this, else what `Authorization` says.
    pub(super) fn known_caller(&self) -> Caller {
        let Some((kind, parts)) = self.known() else { return Caller::Authorization };
        Caller::from_fn(move |_| Some(format!("{kind}:{parts:?}").into_bytes()))
    }

    /// The first of the gateway's ways to know a caller that knows this one.
    fn known(&self) -> Option<(usize, Vec<Part>)> {
        // The number of a way is part of who somebody is: a new way gets a new one, wherever it stands.
        let ways = [
            (0, Pick::all([of_jwt("iss"), of_jwt("sub")])),
            (1, Pick::all([of_claims("iss"), of_claims("sub")])),
            (2, Pick::place(["authorizer", "principalId"])),
            // Everybody of an identity pool has one role, and with it one ARN.
            (
                5,
                Pick::all([
                    arn_of_http(),
                    Pick::place(["authorizer", "iam", "cognitoIdentity", "identityId"]),
                ]),
            ),
            (3, arn_of_http()),
            (6, Pick::all([arn_of_rest(), Pick::place(["identity", "cognitoIdentityId"])])),
            (4, arn_of_rest()),
        ];
        let looks_at = |kind| kind < 5 || !sabotage::is_on("lambda_pool_is_one_caller");
        let known = |(kind, way): (usize, Pick)| {
            let parts = way.id(&self.context).ok()?;
            parts.last().is_some_and(|it| *it != Part::Null).then_some((kind, parts))
        };
        ways.into_iter().filter(|(kind, _)| looks_at(*kind)).find_map(known)
    }
}

fn of_jwt(claim: &str) -> Pick {
    Pick::place(["authorizer", "jwt", "claims", claim])
}

fn of_claims(claim: &str) -> Pick {
    Pick::place(["authorizer", "claims", claim])
}

/// Who has signed a request, with IAM authorization of an HTTP API or a function URL.
fn arn_of_http() -> Pick {
    Pick::place(["authorizer", "iam", "userArn"])
}

/// Who has signed a request, with that of a REST API.
fn arn_of_rest() -> Pick {
    Pick::place(["identity", "userArn"])
}

pub(super) fn is_own_name(name: &str) -> bool {
    HeaderName::from_bytes(name.as_bytes()).is_ok_and(|it| is_own(&it))
}

impl Event<'_> {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut append = |name: &str, value: &str| {
            // A value that no header can have is there all the same, and is not taken for one that is missing.
            let value =
                HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""));
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                headers.append(name, value);
            }
        };
        match &self.multi_value_headers {
            Some(multi) if !multi.is_empty() => {
                for (name, values) in multi {
                    values.iter().flatten().for_each(|value| append(name, value));
                }
            }
            Some(_) | None => {
                for (name, value) in self.headers.iter().flatten() {
                    append(name, value.as_deref().unwrap_or_default());
                }
            }
        }
        headers
    }

    /// The gateway's route, if it is one.
    fn route(&self) -> Option<&str> {
        let key = self.route_key.as_deref().map(|it| it.split_once(' ').map_or(it, |(_, route)| route));
        key.or(self.resource.as_deref()).filter(|it| it.starts_with('/') && !it.contains("+}"))
    }

    /// The query, the same whenever the request comes again.
    fn query(&self) -> String {
        if let Some(raw) = &self.raw_query_string {
            return raw.clone();
        }
        let query = match &self.multi_value_query_string_parameters {
            Some(multi) => serde_json::to_string(multi),
            None => serde_json::to_string(&self.query_string_parameters),
        };
        query.unwrap_or_default()
    }

    fn body(&self) -> Result<Vec<u8>, Fault> {
        let text = self.body.as_deref().unwrap_or_default();
        if !self.is_base64_encoded {
            return Ok(text.as_bytes().to_vec());
        }
        STANDARD
            .decode(text)
            .map_err(|error| Fault::Event(format!("the request's body is not base64: {error}")))
    }
}
