//! JMESPath expressions over events.
//!
//! 1. The functions of the standard are there, and two of Powertools': `powertools_json` reads a string as JSON,
//!    `powertools_base64` decodes one.
//! 2. An event with a member that is there twice is refused, wherever that is.
//! 3. A number in the result that may not be exact is refused: two ids must not become one.
//!
//! `powertools_base64_gzip` is not there.

use ::jmespath::{
    Context, ErrorReason, JmespathError, Rcvar, Runtime, Variable,
    ast::Ast,
    functions::{ArgumentType, CustomFunction, Signature},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use semel_core::fingerprint::Fingerprint;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::{Arc, LazyLock};

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    text: Arc<str>,
    ast: Arc<Ast>,
}

/// From here on not every whole number is a `f64`.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    let text = |decode: fn(&str) -> Option<Variable>| {
        let signature =
            Signature::new(vec![ArgumentType::Union(vec![ArgumentType::String, ArgumentType::Null])], None);
        let run = move |given: &[Rcvar], context: &mut Context<'_>| match given[0].as_string() {
            None => Ok(Rcvar::new(Variable::Null)),
            Some(text) => decode(text).map(Rcvar::new).ok_or_else(|| undecodable(context)),
        };
        Box::new(CustomFunction::new(signature, Box::new(run)))
    };
    runtime.register_function("powertools_json", text(|it| Variable::from_json(it).ok()));
    runtime.register_function("powertools_base64", text(from_base64));
    runtime
});

fn from_base64(text: &str) -> Option<Variable> {
    String::from_utf8(STANDARD.decode(text).ok()?).ok().map(Variable::String)
}

fn undecodable(context: &Context<'_>) -> JmespathError {
    let why = ErrorReason::Parse("the string cannot be decoded".to_owned());
    JmespathError::new(context.expression, context.offset, why)
}

impl Expression {
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let ast = ::jmespath::parse(text).map_err(|error| error.to_string())?;
        Ok(Self { text: text.into(), ast: Arc::new(ast) })
    }

    /// What the expression gives; `null` where there is nothing.
    pub(super) fn search(&self, event: &RawValue) -> Result<Box<RawValue>, String> {
        // Whether the event can be read in one way only: the reader below takes the last of two members.
        Fingerprint::of_json(event.get().as_bytes()).map_err(|error| error.to_string())?;
        let event = Variable::from_json(event.get())?;
        let mut context = Context::new(&self.text, &RUNTIME);
        let found = ::jmespath::interpret(&Rcvar::new(event), &self.ast, &mut context);
        let found = found.map_err(|error| error.to_string())?;
        if !is_exact(&found) {
            return Err(
                "a number in the result has too many digits to be exact: use a JSON pointer".to_owned()
            );
        }
        to_raw_value(&*found).map_err(|error| error.to_string())
    }
}

fn is_exact(found: &Variable) -> bool {
    match found {
        Variable::Number(number) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|it| it.abs() < EXACT_MAX)
        }
        Variable::Array(items) => items.iter().all(|it| is_exact(it)),
        Variable::Object(members) => members.values().all(|it| is_exact(it)),
        Variable::Null | Variable::String(_) | Variable::Bool(_) | Variable::Expref(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(expression: &str, event: &str) -> Result<String, String> {
        let event = RawValue::from_string(event.to_owned()).expect("it is JSON");
        Expression::compile(expression)?.search(&event).map(|it| it.get().to_owned())
    }

    #[test]
    fn an_expression_gives_what_it_names() {
        let event =
            r#"{"user": {"uid": "bb0d"}, "order": 10000, "body": "{\"a\": [1, 2]}", "b64": "aGVsbG8="}"#;
        let check =
            |expression, expected: &str| assert_eq!(search(expression, event).as_deref(), Ok(expected));
        check("order", "10000");
        check("[user.uid, order]", r#"["bb0d",10000]"#);
        check("missing", "null");
        check("[missing, gone]", "[null,null]");
        check("powertools_json(body).a[1]", "2");
        check("powertools_base64(b64)", r#""hello""#);
        check("powertools_json(missing)", "null");
        check("length(user)", "1");
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        assert!(search("[", "{}").is_err());
        assert!(search("nonsense(x)", r#"{"x": 1}"#).is_err());
        for event in [r#"{"x": "{"}"#, r#"{"x": 1}"#] {
            assert!(search("powertools_json(x)", event).is_err(), "{event}");
        }
        assert!(search("powertools_base64(x)", r#"{"x": "?"}"#).is_err());
        assert!(search("x", r#"{"x": 1, "y": {"z": 1, "z": 2}}"#).is_err(), "which `z` counts?");
    }

    #[test]
    fn a_number_that_may_not_be_exact_is_refused() {
        for number in ["18446744073709551616", "-9223372036854775809", "1e300"] {
            assert!(search("x", &format!(r#"{{"x": {number}}}"#)).is_err(), "{number}");
            assert!(search("y", &format!(r#"{{"x": {number}, "y": 1}}"#)).is_ok(), "it is not in the result");
        }
        for number in ["18446744073709551615", "-9223372036854775808", "10.5"] {
            assert_eq!(search("x", &format!(r#"{{"x": {number}}}"#)).as_deref(), Ok(number));
        }
    }
}
