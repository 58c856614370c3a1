//! Finding what a request asks for.
//!
//! 1. There is one table. The router and the document are both made from it, so neither has anything that the other has not.
//! 2. A path has one form: nothing is decoded, so nothing can be read in two ways. What stands for a name is one segment.
//! 3. A path that is there with another method is told which ones are right.
//! 4. Query and body are read by the same shapes that the document describes. What does not fit is refused, and not repeated.

use super::{
    desk::Desk,
    door::Who,
    problems::{self, Trouble},
    shape::{Schemas, Shape},
    views::Role,
};
use crate::hex;
use bytes::Bytes;
use http::{Method, StatusCode};
use semel::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, error::Category};
use std::{collections::BTreeSet, sync::Arc};

/// Longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 4 * 1024;

/// Something that can be asked for.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// Who may.
    pub(crate) role: Role,
    /// Its name in the document.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) summary: &'static str,
    /// Of the answer.
    pub(crate) status: StatusCode,
    pub(crate) query: fn(&mut Schemas) -> Value,
    pub(crate) body: fn(&mut Schemas) -> Value,
    pub(crate) answer: fn(&mut Schemas) -> Value,
    act: Box<Act>,
}

type Act = dyn Fn(Arc<Desk>, Raw) -> BoxFuture<'static, Result<Vec<u8>, Trouble>> + Send + Sync;

/// A request for something that was found, not yet read.
pub(crate) struct Raw {
    pub(crate) who: Who,
    /// What stands for the names of the path.
    pub(crate) names: Vec<String>,
    pub(crate) query: String,
    pub(crate) body: Bytes,
}

/// A request that was read.
pub(crate) struct Asked<Q, B> {
    pub(crate) who: Who,
    /// What stands for the name of the path; empty if there is none.
    pub(crate) name: String,
    pub(crate) query: Q,
    pub(crate) body: B,
}

/// Where something is, who may ask for it, and what it does.
pub(crate) struct Place {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) role: Role,
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
}

impl Route {
    /// Something at this place, done by this function.
    pub(crate) fn new<Q, B, A, F>(place: Place, act: fn(Arc<Desk>, Asked<Q, B>) -> F) -> Self
    where
        Q: Shape + DeserializeOwned + 'static,
        B: Shape + DeserializeOwned + 'static,
        A: Shape + Serialize + 'static,
        F: Future<Output = Result<A, Trouble>> + Send + 'static,
    {
        let Place { method, path, role, name, summary } = place;
        Self {
            method,
            path,
            role,
            name,
            summary,
            status: StatusCode::OK,
            query: Q::schema,
            body: B::schema,
            answer: A::schema,
            act: Box::new(move |desk, raw| {
                let asked = read::<Q, B>(raw).map(|asked| act(desk, asked));
                Box::pin(async move {
                    let answer = asked?.await?;
                    Ok(serde_json::to_vec(&answer).expect("shapes are JSON"))
                })
            }),
        }
    }

    /// With another status than 200.
    pub(crate) fn answered_with(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Does it.
    pub(crate) fn act(&self, desk: Arc<Desk>, raw: Raw) -> BoxFuture<'static, Result<Vec<u8>, Trouble>> {
        (self.act)(desk, raw)
    }
}

/// What is at this path with this method, and what stands for its names.
pub(crate) fn find<'a>(
    routes: &'a [Route],
    method: &Method,
    path: &str,
) -> Result<(&'a Route, Vec<String>), Trouble> {
    let here: Vec<_> = routes.iter().filter_map(|it| Some((it, names(it.path, path)?))).collect();
    if here.is_empty() {
        return Err(problems::NOT_FOUND.into());
    }
    let allowed: BTreeSet<_> = here.iter().map(|(it, _)| it.method.as_str()).collect();
    let method = if method == Method::HEAD { &Method::GET } else { method };
    here.into_iter().find(|(it, _)| it.method == *method).ok_or_else(|| {
        let head = allowed.contains("GET").then_some("HEAD");
        Trouble::Method(allowed.into_iter().chain(head).collect::<Vec<_>>().join(", "))
    })
}

/// What stands for the names of a pattern, if the path is like it.
fn names(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut segments = path.split('/');
    for wanted in pattern.split('/') {
        let found = segments.next()?;
        if wanted.starts_with('{') {
            let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'_' | b'-' | b'$');
            let is_name = !found.is_empty() && found.bytes().all(is_plain) && !matches!(found, "." | "..");
            names.push(is_name.then(|| found.to_owned())?);
        } else if wanted != found {
            return None;
        }
    }
    segments.next().is_none().then_some(names)
}

fn read<Q: Shape + DeserializeOwned, B: DeserializeOwned>(raw: Raw) -> Result<Asked<Q, B>, Trouble> {
    let Raw { who, mut names, query, body } = raw;
    let query = read_query::<Q>(&query)?;
    // No body is an empty one: whatever is needed is missed by its name.
    let body = if body.is_empty() { b"{}" } else { body.as_ref() };
    let body = serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Data => {
            let place = format!("see line {}, column {}", error.line(), error.column());
            Trouble::invalid(format!("{} For the body, {place}.", problems::INVALID.detail()))
        }
        Category::Syntax | Category::Eof | Category::Io => problems::BAD_REQUEST.into(),
    })?;
    Ok(Asked { who, name: names.pop().unwrap_or_default(), query, body })
}

/// A query, read as the object that its shape describes.
pub(super) fn read_query<Q: Shape + DeserializeOwned>(text: &str) -> Result<Q, Trouble> {
    let pairs = pairs(text).ok_or(problems::BAD_REQUEST)?;
    let mut book = Schemas::default();
    let schema = Q::schema(&mut book);
    let schema = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next()).and_then(|it| book.get(it));
    let properties = schema.and_then(|it| it["properties"].as_object()).cloned().unwrap_or_default();
    let mut object = Map::new();
    for (name, value) in pairs {
        let Some(property) = properties.get(&name) else {
            return Err(Trouble::invalid("The query has a parameter that nobody knows."));
        };
        let value = match kind(property) {
            Some("integer") => value.parse::<u64>().map_or(Value::Null, Value::from),
            Some("boolean") => value.parse::<bool>().map_or(Value::Null, Value::from),
            _ => value.into(),
        };
        if value.is_null() || object.contains_key(&name) {
            return Err(Trouble::invalid(format!(
                "The parameter `{name}` is no number, or neither `true` nor `false`, or is there twice."
            )));
        }
        object.insert(name, value);
    }
    let wrong =
        |name: &str| format!("The parameter `{name}` is missing, or is not as `/v1/openapi.json` says.");
    serde_json::from_value(Value::Object(object.clone())).map_err(|_| {
        let is_fine = |name: &String| {
            let mut without = object.clone();
            without.remove(name);
            serde_json::from_value::<Q>(Value::Object(without)).is_err()
        };
        let name = object.keys().find(|it| !is_fine(it)).or_else(|| properties.keys().next());
        Trouble::invalid(wrong(name.map_or("", String::as_str)))
    })
}

/// What a parameter is, also if it can be left out.
fn kind(schema: &Value) -> Option<&str> {
    schema["type"].as_str().or_else(|| schema["anyOf"][0]["type"].as_str())
}

/// The pairs of a query; `None` if it cannot be read.
pub(super) fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    if text.len() > QUERY_BYTES_MAX {
        return None;
    }
    let parts = text.split('&').filter(|it| !it.is_empty());
    parts
        .map(|it| {
            let (name, value) = it.split_once('=').unwrap_or((it, ""));
            Some((decoded(name)?, decoded(value)?))
        })
        .collect()
}

/// A piece of a query, decoded once.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, more) = rest.split_at_checked(2)?;
                let digits = std::str::from_utf8(digits).ok().filter(|it| !it.starts_with('+'))?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = more;
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// A piece of a query, encoded.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&hex::write(&[byte]).to_ascii_uppercase());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::views::{ExecutionsQuery, Standing, WhyQuery};

    #[test]
    fn a_path_has_one_form() {
        let found = |path| names("/v1/executions/{id}/cancel", path);
        assert_eq!(found("/v1/executions/ab12/cancel"), Some(vec!["ab12".to_owned()]));
        for path in [
            "/v1/executions//cancel",
            "/v1/executions/ab12/cancel/",
            "/v1/executions/ab12",
            "/v1/executions/a%62/cancel",
            "/v1/executions/a;b/cancel",
            "/v1/executions/../cancel",
            "/v1/executions/a/b/cancel",
            "/V1/executions/ab12/cancel",
            "//v1/executions/ab12/cancel",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn a_query_is_read_as_the_document_says() {
        let query: ExecutionsQuery = read_query("status=FAILED&limit=7&name=a%20b%2Bc+d").unwrap();
        assert_eq!((query.status, query.limit), (Some(Standing::Failed), Some(7)));
        assert_eq!(query.name.as_deref(), Some("a b+c d"));
        let status = |text: &str| match read_query::<ExecutionsQuery>(text) {
            Ok(_) => 200,
            Err(Trouble::Plain(problem) | Trouble::Said(problem, _)) => problem.status().as_u16(),
            Err(Trouble::Method(_) | Trouble::Store(_)) => 0,
        };
        let long = format!("name={}", "x".repeat(QUERY_BYTES_MAX));
        for (text, wanted) in [
            ("", 200),
            ("status=failed", 422),
            ("limit=-1", 422),
            ("limit=a", 422),
            ("limit=1&limit=2", 422),
            ("token=secret", 422),
            ("accepted_from=yesterday", 422),
            ("accepted_from=2026-11-16T00:00:00Z", 200),
            ("name=%", 400),
            ("name=%+1", 400),
            ("name=%ff", 400),
            (&long, 400),
        ] {
            assert_eq!(status(text), wanted, "{text}");
        }
        assert!(read_query::<WhyQuery>("").is_err());
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let text = "order/42?a=b&c=d e+f%ü";
        assert_eq!(decoded(&encoded(text)).as_deref(), Some(text));
    }
}
