//! Where functions may be.

use super::{read::Section, value::Wanted};
use semel_runtime::deliver::guard::{Allowed, NETWORKS_MAX, Policy};

/// What a file says, and whether everything at this machine is allowed besides.
pub(super) fn read(file: &Section<'_>, is_dev: bool) -> Policy {
    let mut policy = Policy { allow: Vec::new(), loopback: is_dev };
    let Some(section) = file.section("guard") else { return policy };
    policy.allow = section.list("allow", allowed).unwrap_or_default();
    policy.loopback |= section.flag("loopback").unwrap_or_default();
    if policy.allow.len() > NETWORKS_MAX {
        section.wrong("allow", "[…]", &format!("at most {NETWORKS_MAX} of them"));
    }
    section.finish();
    policy
}

fn allowed(text: &str) -> Result<Allowed, Wanted> {
    let wanted = || "a network such as `10.1.0.0/16`, an address, or the name of a host".to_owned();
    text.parse().map_err(|_| wanted())
}
