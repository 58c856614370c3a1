//! The document that describes the API, made from the table that the router has.

use super::{
    shape::{Schemas, Shape},
    table::Route,
    views::ProblemView,
};
use http::Method;
use serde_json::{Map, Value, json};

/// The document, as OpenAPI 3.1 has it.
pub(crate) fn document(routes: &[Route]) -> Map<String, Value> {
    let mut book = Schemas::default();
    let mut paths = Map::new();
    let problem = ProblemView::schema(&mut book);
    for route in routes {
        let operation = operation(route, &mut book, &problem);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    paths.insert("/metrics".to_owned(), metrics(&problem));
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Semel",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What operators ask and do.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": book.into_json(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    match document {
        Value::Object(document) => document,
        _ => unreachable!("it is an object"),
    }
}

fn operation(route: &Route, book: &mut Schemas, problem: &Value) -> Value {
    let mut parameters: Vec<_> = names(route.path)
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    // The shape of a query has no name of its own in the document.
    let mut apart = Schemas::default();
    let query = (route.query)(&mut apart);
    let query = resolved(&apart, &query).clone();
    for (name, schema) in query["properties"].as_object().into_iter().flatten() {
        let schema = inlined(&apart, schema);
        let is_required = query["required"].as_array().is_some_and(|it| it.contains(&name.as_str().into()));
        parameters.push(json!({
            "name": name,
            "in": "query",
            "required": is_required,
            "description": schema["description"],
            "schema": schema["anyOf"].get(0).unwrap_or(&schema),
        }));
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "description": format!("For the role `{}`.", route.role.as_str()),
        "parameters": parameters,
        "responses": {
            route.status.as_str(): {
                "description": "Done.",
                "content": { "application/json": { "schema": (route.answer)(book) } },
            },
            "default": {
                "description": "Not done.",
                "content": { "application/problem+json": { "schema": problem } },
            },
        },
    });
    if route.method != Method::GET && route.method != Method::DELETE {
        let body = (route.body)(book);
        operation["requestBody"] = json!({ "content": { "application/json": { "schema": body } } });
    }
    operation
}

/// What Prometheus asks for, behind the same door and outside of the table: it is no JSON.
fn metrics(problem: &Value) -> Value {
    json!({ "get": {
        "operationId": "metrics",
        "summary": "Everything that is counted, as Prometheus reads it.",
        "description": "For the role `viewer`.",
        "parameters": [],
        "responses": {
            "200": { "description": "Done.", "content": { "text/plain": { "schema": { "type": "string" } } } },
            "default": {
                "description": "Not done.",
                "content": { "application/problem+json": { "schema": problem } },
            },
        },
    } })
}

/// The names that stand in a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'))
}

fn resolved<'a>(book: &'a Schemas, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next());
    name.and_then(|it| book.get(it)).unwrap_or(schema)
}

/// A schema without references.
fn inlined(book: &Schemas, schema: &Value) -> Value {
    match resolved(book, schema) {
        Value::Object(members) => {
            members.iter().map(|(name, it)| (name.clone(), inlined(book, it))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(|it| inlined(book, it)).collect(),
        other => other.clone(),
    }
}
