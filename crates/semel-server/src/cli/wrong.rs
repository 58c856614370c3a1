//! What clap says, in our words.

use crate::exit::Failure;
use clap::{
    Error,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::error::Error as _;

/// What to say about a line that clap did not understand, or that asked for help.
pub(super) fn told(error: &Error) -> Result<(), Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print!("{}", error.render());
            Ok(())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            Err(Failure::usage("which command?").hint("`semel --help` lists them"))
        }
        _ => Err(failure(error)),
    }
}

fn failure(error: &Error) -> Failure {
    let text = |kind| {
        let text = match error.get(kind) {
            Some(ContextValue::String(text)) => text.clone(),
            Some(ContextValue::Strings(texts)) => texts.join("`, `"),
            _ => String::new(),
        };
        (!text.is_empty()).then_some(text)
    };
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    let what = match error.kind() {
        ErrorKind::UnknownArgument => format!("`{argument}` is no option"),
        ErrorKind::InvalidSubcommand => {
            format!("`{}` is no command", text(ContextKind::InvalidSubcommand).unwrap_or_default())
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("`{argument}` needs a value"),
        ErrorKind::InvalidValue => format!("`{argument}` cannot be `{value}`"),
        ErrorKind::ValueValidation => {
            let wanted = error.source().map(|it| format!(": wanted {it}")).unwrap_or_default();
            format!("`{argument}` cannot be `{value}`{wanted}")
        }
        ErrorKind::MissingRequiredArgument => format!("`{argument}` is missing"),
        ErrorKind::ArgumentConflict => {
            format!("`{argument}` is given twice, or does not go with another option")
        }
        _ => {
            let rendered = error.render().to_string();
            let first = rendered.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        }
    };
    let suggested =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let suggested = suggested.into_iter().find_map(text);
    let valid = text(ContextKind::ValidValue).or_else(|| text(ContextKind::ValidSubcommand));
    Failure::usage(what).hint(match (suggested, valid) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, Some(all)) => format!("one of `{all}`"),
        (None, None) => "`semel --help` and `semel COMMAND --help` say what there is".to_owned(),
    })
}
