//! Tables with a version, and the way from one version to the next.
//!
//! 1. A table of one row says which version the tables have. Each step leads from one version to the next and may be
//!    run twice.
//! 2. Whoever opens them is told about missing, older or newer ones; nothing is changed unless that was asked for.
//! 3. The same steps are a text that a person can run.
//!
//! It does not ask and does not run anything: the adapters do, each in the words of its database.

use super::Table;
use semel_core::store::{StoreError, StoreErrorKind};

/// Tables that belong together.
pub struct Schema {
    /// Whose they are.
    pub store: &'static str,
    /// What they hold, for people.
    pub title: &'static str,
    /// The table of the version, quoted.
    pub meta: String,
    /// One for each version, from the one before it. The first makes the table of the version, too.
    pub steps: Vec<String>,
    /// Begins a transaction, in the words of the database.
    pub begin: &'static str,
    /// What a person does to have them made.
    pub remedy: &'static str,
}

impl Schema {
    /// The name of the table that says the version of this one and those beside it, quoted.
    pub fn meta_of(table: &Table) -> String {
        table.quoted("_meta")
    }

    /// Everything, as a text for people.
    pub fn sql(&self) -> String {
        let Self { title, begin, .. } = self;
        let (version, steps) = (self.version(), self.steps.concat());
        let set = self.set_version();
        format!("-- {title}, schema version {version}. May be run again.\n{begin};\n{steps}{set}COMMIT;\n")
    }

    /// What leads from the version that was found to this one; nothing if it is this one.
    pub fn migration(&self, found: Option<i64>) -> Result<Option<String>, StoreError> {
        let version = self.version();
        match found.unwrap_or(0) {
            newer if newer > version => Err(self.newer(newer)),
            found if found == version => Ok(None),
            older => {
                let done = usize::try_from(older).unwrap_or(0);
                Ok(Some(self.steps[done..].concat() + &self.set_version()))
            }
        }
    }

    /// Makes sure that what was found is what this code knows.
    pub fn accept(&self, found: Option<i64>) -> Result<(), StoreError> {
        let (version, remedy) = (self.version(), self.remedy);
        match found {
            Some(found) if found == version => Ok(()),
            Some(newer) if newer > version => Err(self.newer(newer)),
            Some(older) => Err(self.misconfigured(format!(
                "the tables have schema version {older}, and this Semel needs {version}: {remedy}, or run \
                 `schema_sql()`"
            ))),
            None => Err(self.misconfigured(format!("the table is missing: {remedy}, or run `schema_sql()`"))),
        }
    }

    /// The version that this code reads and writes.
    fn version(&self) -> i64 {
        i64::try_from(self.steps.len()).expect("there are few steps")
    }

    fn set_version(&self) -> String {
        let (meta, version) = (&self.meta, self.version());
        format!(
            "UPDATE {meta} SET version = {version} WHERE version < {version};\n\
             INSERT INTO {meta} (version) SELECT {version} WHERE NOT EXISTS (SELECT 1 FROM {meta});\n"
        )
    }

    fn newer(&self, found: i64) -> StoreError {
        let version = self.version();
        self.misconfigured(format!(
            "the tables have schema version {found}, and this Semel knows versions up to {version}: upgrade Semel"
        ))
    }

    fn misconfigured(&self, context: String) -> StoreError {
        StoreError::new(StoreErrorKind::Misconfigured, self.store, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        Schema {
            store: "sql",
            title: "Records",
            meta: "meta".to_owned(),
            steps: vec!["one;\n".to_owned(), "two;\n".to_owned()],
            begin: "BEGIN",
            remedy: "say `create`",
        }
    }

    #[test]
    fn each_version_is_led_to_this_one_and_a_newer_one_is_left_alone() {
        let migration = |found| schema().migration(found).map_err(|error| error.to_string());
        let set = schema().set_version();
        assert_eq!(migration(None), Ok(Some(format!("one;\ntwo;\n{set}"))));
        assert_eq!(migration(Some(1)), Ok(Some(format!("two;\n{set}"))));
        assert_eq!(migration(Some(2)), Ok(None));
        assert!(migration(Some(3)).unwrap_err().contains("version 3"));
    }

    #[test]
    fn only_this_version_is_accepted() {
        let told = |found| schema().accept(found).map_err(|error| error.to_string());
        assert_eq!(told(Some(2)), Ok(()));
        for (found, says) in
            [(None, "missing: say `create`"), (Some(1), "needs 2: say `create`"), (Some(3), "upgrade")]
        {
            let error = told(found).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
