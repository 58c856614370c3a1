//! Answers in the form that gateways take: `statusCode`, `headers`, `body`.

use super::request::is_own_name;
use crate::http::{Caller, HeaderList, IDEMPOTENCY_REPLAYED, Problem, ProblemBase, challenge};
use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};
use std::{collections::HashSet, time::Duration};

/// The members of an answer that hold headers.
const HEADERS: [&str; 2] = ["headers", "multiValueHeaders"];

/// The answer's status, if it says one: HTTP APIs take any JSON for a 200.
pub(super) fn status(answer: &RawValue) -> Option<StatusCode> {
    let status = match members(answer)?.get("statusCode")? {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    StatusCode::from_u16(status).ok()
}

/// What of an answer is kept.
pub(super) fn reduced(answer: &RawValue, kept: &HeaderList) -> Option<Box<RawValue>> {
    let mut answer = members(answer)?;
    let headers = headers(&answer);
    let names: HashSet<&str> = kept.of(&headers, false).map(|(name, _)| name.as_str()).collect();
    answer.remove("cookies");
    retain(&mut answer, |name| names.contains(name.to_ascii_lowercase().as_str()));
    to_raw_value(&answer).ok()
}

/// The answer of a handler, without what only Semel may say.
pub(super) fn without_own(answer: Box<RawValue>) -> Box<RawValue> {
    let Some(mut own) = members(&answer) else { return answer };
    if !headers(&own).keys().any(|it| is_own_name(it.as_str())) {
        return answer;
    }
    retain(&mut own, |name| !is_own_name(name));
    to_raw_value(&own).unwrap_or(answer)
}

/// A kept answer, marked.
pub(super) fn replayed(kept: &RawValue, is_multi: bool) -> Box<RawValue> {
    let mut answer = match members(kept) {
        Some(answer) if status(kept).is_some() => answer,
        Some(_) | None => any_json(kept),
    };
    let (member, value) = if is_multi { (HEADERS[1], json!(["true"])) } else { (HEADERS[0], json!("true")) };
    let headers = answer.entry(member).or_insert_with(|| json!({}));
    if headers.is_null() {
        *headers = json!({});
    }
    if let Value::Object(headers) = headers {
        headers.insert(IDEMPOTENCY_REPLAYED.as_str().to_owned(), value);
    }
    to_raw_value(&answer).unwrap_or_else(|_| kept.to_owned())
}

/// What an HTTP API makes of JSON that says no status.
fn any_json(json: &RawValue) -> Map<String, Value> {
    let headers = json!({"content-type": "application/json"});
    let members = [("statusCode", json!(200)), ("headers", headers), ("body", json!(json.get()))];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A problem, as an answer.
pub(super) fn problem(
    problem: Problem,
    wait: Option<Duration>,
    base: &ProblemBase,
    caller: Option<&Caller>,
    is_multi: bool,
) -> Box<RawValue> {
    let mut response = match wait {
        Some(wait) => problem.response_after::<String>(base, wait),
        None => problem.response::<String>(base),
    };
    // Where the gateway knows nobody, `Authorization` is looked at.
    challenge(problem, caller.unwrap_or(&Caller::Authorization), response.headers_mut());
    let value = |value: &HeaderValue| value.to_str().map_or(Value::Null, Value::from);
    let line = |(name, it): (&HeaderName, &HeaderValue)| {
        let value = if is_multi { Value::from(vec![value(it)]) } else { value(it) };
        (name.as_str().to_owned(), value)
    };
    let headers: Map<String, Value> = response.headers().iter().map(line).collect();
    let member = if is_multi { HEADERS[1] } else { HEADERS[0] };
    let body = String::from_utf8_lossy(&problem.json(base)).into_owned();
    let answer = json!({"statusCode": problem.status().as_u16(), member: headers, "body": body, "isBase64Encoded": false});
    to_raw_value(&answer).expect("texts and numbers are JSON")
}

fn members(answer: &RawValue) -> Option<Map<String, Value>> {
    serde_json::from_str(answer.get()).ok()
}

/// All headers of an answer.
fn headers(answer: &Map<String, Value>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for lines in HEADERS.iter().filter_map(|it| answer.get(*it)?.as_object()) {
        for (name, value) in lines {
            let text = value.as_str().or_else(|| value.get(0)?.as_str()).unwrap_or_default();
            let value =
                HeaderValue::from_bytes(text.as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""));
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                headers.append(name, value);
            }
        }
    }
    headers
}

fn retain(answer: &mut Map<String, Value>, keeps: impl Fn(&str) -> bool) {
    for member in HEADERS {
        if let Some(Value::Object(lines)) = answer.get_mut(member) {
            lines.retain(|name, _| keeps(name));
        }
    }
}
