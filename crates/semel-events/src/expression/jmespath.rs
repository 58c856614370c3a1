//! JMESPath over an event as JSON.
//!
//! 1. The functions of the standard are there, and no others. A call of another one, or with too few or too many
//!    arguments, is told when the expression is read, unless it stands where nothing leads to it.
//! 2. An expression has at most [`SIGNS_MAX`] signs that lead on, wherever they stand: whoever reads it, and whoever follows
//!    it, goes one call deeper for each.
//! 3. An event with a member that is there twice is refused, wherever that is.
//! 4. A list is several parts, anything else is one. Beside other expressions a list is one part, too.
//! 5. A number in the result that may not be exact is refused: two ids must not become one.

use super::{BadExpression, Input, NotFound, Root, part};
use crate::json;
use ::jmespath::{Context, ErrorReason, JmespathError, Rcvar, Runtime, RuntimeError, Variable, ast::Ast};
use semel_core::{
    fingerprint::Fingerprint,
    key::{PARTS_MAX, Part},
};
use serde_json::value::{RawValue, to_raw_value};
use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

/// Most signs of an expression that lead on.
pub const SIGNS_MAX: usize = 100;

/// From here on not every whole number is a `f64`.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    runtime
});

/// A JMESPath that was read.
#[derive(Clone, Debug)]
pub struct Jmespath {
    text: Arc<str>,
    ast: Arc<Ast>,
}

impl Jmespath {
    pub(super) fn compile(text: &str) -> Result<Self, BadExpression> {
        let is_sign = |it: &char| "([{!&|.*?<>=".contains(*it);
        if text.chars().filter(is_sign).count() > SIGNS_MAX {
            return Err(BadExpression::Jmespath(format!("it has more than {SIGNS_MAX} signs that lead on")));
        }
        let ast = ::jmespath::parse(text).map_err(|error| bad(&error))?;
        // What no event can mend shows without one.
        let mut context = Context::new(text, &RUNTIME);
        match ::jmespath::interpret(&Rcvar::new(Variable::Null), &ast, &mut context) {
            Err(error) if is_for_ever(&error.reason) => Err(bad(&error)),
            Ok(_) | Err(_) => Ok(Self { text: text.into(), ast: Arc::new(ast) }),
        }
    }

    /// What is found; the items of a list.
    pub(super) fn parts(&self, input: &Input<'_>) -> Result<Vec<Part>, NotFound> {
        self.told(input, |found| {
            if !found.get().starts_with('[') {
                return Some(vec![part(found)?]);
            }
            let items = json::list(found.get().as_bytes()).ok()?;
            (items.len() <= PARTS_MAX).then_some(())?;
            items.into_iter().map(part).collect()
        })
    }

    /// What is found; the hash of a list.
    pub(super) fn part(&self, input: &Input<'_>) -> Result<Part, NotFound> {
        self.told(input, part)
    }

    fn told<T>(&self, input: &Input<'_>, tell: impl FnOnce(&RawValue) -> Option<T>) -> Result<T, NotFound> {
        let found = self.search(input);
        let told = found.as_deref().and_then(tell);
        told.ok_or_else(|| NotFound::Jmespath(format!("jmespath:{}", self.text).into()))
    }

    fn search(&self, input: &Input<'_>) -> Option<Box<RawValue>> {
        let text: Cow<'_, [u8]> = match input.root {
            Root::Event(event) => event.to_structured().to_vec().into(),
            Root::Body(body) => body.get().as_bytes().into(),
        };
        Fingerprint::of_json(&text).ok()?;
        let root = Variable::from_json(std::str::from_utf8(&text).ok()?).ok()?;
        let mut context = Context::new(&self.text, &RUNTIME);
        let found = ::jmespath::interpret(&Rcvar::new(root), &self.ast, &mut context).ok()?;
        is_exact(&found).then_some(())?;
        to_raw_value(&*found).ok()
    }
}

/// What is wrong, and where.
fn bad(error: &JmespathError) -> BadExpression {
    let reason = match &error.reason {
        ErrorReason::Parse(reason) => reason.clone(),
        ErrorReason::Runtime(reason) => reason.to_string(),
    };
    BadExpression::Jmespath(format!("{} (at its character {})", reason.trim(), error.offset + 1))
}

/// Whether it is so with every event.
const fn is_for_ever(reason: &ErrorReason) -> bool {
    matches!(
        reason,
        ErrorReason::Parse(_)
            | ErrorReason::Runtime(
                RuntimeError::InvalidSlice
                    | RuntimeError::UnknownFunction(_)
                    | RuntimeError::NotEnoughArguments { .. }
                    | RuntimeError::TooManyArguments { .. }
            )
    )
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
