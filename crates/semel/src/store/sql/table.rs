//! The names of a store's table and of what belongs to it.
//!
//! 1. A name is a letter or `_`, then letters, digits and `_` of ASCII: what is refused cannot be quoted wrongly.
//! 2. It is quoted wherever it stands, so that words of SQL and capitals are names, too.
//! 3. Several applications live in one database by different names: they share nothing.

use semel_core::store::{StoreError, StoreErrorKind};

/// Longest name, in bytes: with the longest suffix it still fits the 63 that PostgreSQL keeps of one.
const NAME_BYTES_MAX: usize = 48;
/// The table's name unless another is given.
const DEFAULT: &str = "semel_records";

/// Where records are kept.
#[derive(Clone, Debug)]
pub struct Table {
    schema: Option<String>,
    name: String,
}

impl Default for Table {
    fn default() -> Self {
        Self { schema: None, name: DEFAULT.to_owned() }
    }
}

impl Table {
    /// The table of this name, in this schema if one is named; `None` stands for what is used by default.
    pub fn new(store: &'static str, schema: Option<&str>, name: Option<&str>) -> Result<Self, StoreError> {
        let schema = schema.map(|it| checked(store, "schema", it)).transpose()?;
        let name = name.map_or_else(|| Ok(DEFAULT.to_owned()), |it| checked(store, "table", it))?;
        Ok(Self { schema, name })
    }

    /// The table itself, quoted.
    pub fn records(&self) -> String {
        self.quoted("")
    }

    /// What belongs to the table and is named after it, quoted.
    pub fn quoted(&self, suffix: &str) -> String {
        let schema = self.schema.as_ref().map(|it| format!("\"{it}\".")).unwrap_or_default();
        format!("{schema}\"{}{suffix}\"", self.name)
    }

    /// The same without its schema: an index stands where its table does.
    pub fn bare(&self, suffix: &str) -> String {
        format!("\"{}\"", self.name(suffix))
    }

    /// The same without quotes, for what is given as text.
    pub fn name(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.name)
    }
}

fn checked(store: &'static str, what: &str, name: &str) -> Result<String, StoreError> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let is_name = name.chars().all(is_word) && !name.starts_with(|it: char| it.is_ascii_digit());
    if !name.is_empty() && is_name && name.len() <= NAME_BYTES_MAX {
        return Ok(name.to_owned());
    }
    let context = format!(
        "`{}` is no name for a {what}: use letters, digits and `_`, {NAME_BYTES_MAX} bytes at most",
        name.escape_default()
    );
    Err(StoreError::new(StoreErrorKind::Misconfigured, store, context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_with_their_schema() {
        let table = Table::new("sql", Some("billing"), Some("Select")).unwrap();
        assert_eq!(table.records(), "\"billing\".\"Select\"");
        assert_eq!(table.quoted("_meta"), "\"billing\".\"Select_meta\"");
        assert_eq!(table.bare("_index"), "\"Select_index\"");
        assert_eq!(Table::default().records(), "\"semel_records\"");
    }

    #[test]
    fn what_could_be_quoted_wrongly_is_no_name() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "a\"b", "a'b", "a b", "a;b", "a.b", "1a", "a\0", "größe", &long] {
            assert!(Table::new("sql", None, Some(name)).is_err(), "`{name}` was taken as a table's name");
            assert!(Table::new("sql", Some(name), None).is_err(), "`{name}` was taken as a schema's name");
        }
    }
}
