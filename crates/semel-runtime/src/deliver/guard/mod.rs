//! The guard: which targets may be called at all.
//!
//! 1. A target is `http` or `https`, with a host and a port that can be read in one way only: [`check_url`]. What two
//!    programs could read differently (a number with an octal part, a dot of another script, a name before an `@`) is
//!    refused and not repaired.
//! 2. Addresses that are not on the public internet are refused, as IANA's registers of special-purpose addresses have
//!    them: [`Policy::check_address`]. A form of IPv6 that hides an address of IPv4 is judged by what it hides.
//! 3. A URL is checked when it is configured, and every address that its host has is checked again when a connection is
//!    made: one bad address is enough to refuse them all. The connection goes to an address that was checked.
//! 4. What is listed in [`Policy::allow`] is allowed. A network allows its addresses. A host allows its name and the
//!    private addresses that it may have, but not those where no function lives (the metadata services of clouds,
//!    multicast, reserved ones): these must be listed as networks.
//! 5. Loopback is allowed if the policy says so, for development.
//!
//! It does not resolve names, connect, or read the configuration.

mod address;
mod policy;
mod url;

pub use address::{Kind, kind_of};
pub(super) use policy::Vetted;
pub use policy::{Allowed, InvalidAllowed, NETWORKS_MAX, Network, Policy};
pub use url::{Host, Refusal, Target, URL_BYTES_MAX, check_url};
