//! Who sent a request.
//!
//! 1. The caller is part of what a key names: nobody sees, and nobody blocks, another caller's keys.
//! 2. It is hashed at once; nothing of a credential is stored.
//! 3. There is no anonymous caller. A key without a caller is refused, unless all callers share their keys on purpose:
//!    [`Caller::Anyone`].
//!
//! It does not authenticate. Put the layer below whatever does, or let that tell who it is: [`Caller::from_fn`].

use ::http::{HeaderMap, HeaderName, header::AUTHORIZATION, request::Parts};
use semel_core::{sabotage, sha256::Sha256};
use std::{fmt, sync::Arc};

type Tell = dyn Fn(&Parts) -> Option<Vec<u8>> + Send + Sync;

/// How the layer tells callers apart.
///
/// ```
/// use semel::http::Caller;
/// #[derive(Clone)]
/// struct User { id: u64 } // put into the extensions by the layer that authenticates
/// let by_user = Caller::from_fn(|parts| {
///     parts.extensions.get::<User>().map(|user| user.id.to_be_bytes().to_vec())
/// });
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Caller {
    /// By the value of `Authorization`, all of them if there are several.
    ///
    /// A client whose token is renewed between two tries is then somebody else, and its second try a new request. Where
    /// tokens are short-lived, tell callers apart by what stays the same: [`Caller::from_fn`].
    #[default]
    Authorization,
    /// By the value of this header, all of them if there are several. Only for headers that a client cannot forge, such
    /// as those that a gateway sets.
    Header(HeaderName),
    /// As the function says; `None` or nothing is no caller.
    Tell(Teller),
    /// Not at all: **all callers share their keys**, and whoever knows another's key and payload gets its response.
    ///
    /// For services that only one client can reach.
    Anyone,
}

/// A function that tells callers apart. Made by [`Caller::from_fn`].
#[derive(Clone)]
pub struct Teller(Arc<Tell>);

/// The hash of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallerId(pub(crate) [u8; 32]);

impl Caller {
    /// As the function says, from what the layers above have put into the request; `None` is no caller.
    pub fn from_fn(tell: impl Fn(&Parts) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self::Tell(Teller(Arc::new(tell)))
    }

    /// Who sent this, if anybody did.
    pub(crate) fn identify(&self, parts: &Parts) -> Option<CallerId> {
        if sabotage::is_on("http_caller_is_not_in_scope") {
            return Some(CallerId([0; 32]));
        }
        match self {
            Self::Authorization => hash_all(&parts.headers, &AUTHORIZATION),
            Self::Header(name) => hash_all(&parts.headers, name),
            Self::Tell(Teller(tell)) => tell(parts).filter(|it| !it.is_empty()).map(|it| hash([&it[..]])),
            Self::Anyone => Some(CallerId([0; 32])),
        }
    }
}

/// All values of a header; none if there is none, or if all of them are empty.
fn hash_all(headers: &HeaderMap, name: &HeaderName) -> Option<CallerId> {
    let found = headers.get_all(name);
    let values = || found.iter().map(::http::HeaderValue::as_bytes);
    values().any(|it| !it.trim_ascii().is_empty()).then(|| hash(values()))
}

/// Of each value with its length, so that no two lists share one.
fn hash<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> CallerId {
    let mut hasher = Sha256::new();
    for value in values {
        hasher.update(&(value.len() as u64).to_be_bytes());
        hasher.update(value);
    }
    CallerId(hasher.finish())
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authorization => f.write_str("Authorization"),
            Self::Header(name) => f.debug_tuple("Header").field(name).finish(),
            Self::Tell(teller) => teller.fmt(f),
            Self::Anyone => f.write_str("Anyone"),
        }
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::Request;

    fn parts(values: &[&str]) -> Parts {
        let mut request = Request::new(());
        for value in values {
            request.headers_mut().append(AUTHORIZATION, value.parse().unwrap());
        }
        request.into_parts().0
    }

    fn identify(values: &[&str]) -> Option<[u8; 32]> {
        Caller::Authorization.identify(&parts(values)).map(|it| it.0)
    }

    #[test]
    fn no_two_lists_of_values_are_one_caller() {
        let lists: [&[&str]; 6] = [&["a"], &["b"], &["a", "b"], &["b", "a"], &["ab"], &["a", ""]];
        for (n, one) in lists.iter().enumerate() {
            for (m, other) in lists.iter().enumerate() {
                assert_eq!(identify(one) == identify(other), n == m, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn nobody_is_no_caller() {
        assert_eq!(identify(&[]), None);
        assert_eq!(identify(&[""]), None);
        assert_eq!(identify(&["", " "]), None);
        assert!(Caller::from_fn(|_| None).identify(&parts(&["a"])).is_none());
        assert!(Caller::from_fn(|_| Some(Vec::new())).identify(&parts(&["a"])).is_none());
        assert!(Caller::Header(HeaderName::from_static("x-user")).identify(&parts(&["a"])).is_none());
        assert!(Caller::Anyone.identify(&parts(&[])).is_some());
    }
}
