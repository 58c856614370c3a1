//! Without the feature `seal` there are no keyrings. That something is sealed can be told all the same.

use super::Unopened;
use semel_core::key::Key;

/// There is none.
#[derive(Debug)]
pub(crate) enum Keyring {}

impl Keyring {
    pub(super) fn refuses_plain(&self) -> bool {
        match *self {}
    }

    pub(super) fn seal(&self, _: &Key, _: &[u8]) -> Vec<u8> {
        match *self {}
    }

    pub(super) fn open(&self, _: &Key, _: &str, _: &[u8]) -> Result<Vec<u8>, Unopened> {
        match *self {}
    }

    pub(super) fn seal_text(&self, _: &Key, _: &str) -> String {
        match *self {}
    }

    pub(super) fn open_text(&self, _: &Key, _: &str, _: &str) -> Result<String, Unopened> {
        match *self {}
    }
}
