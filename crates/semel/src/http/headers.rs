//! Which headers go where.
//!
//! 1. What is Semel's own (`Idempotency-Replayed`, `Semel-…`) is taken off requests and off the service's responses, also
//!    where it is a trailer: nobody else says it. `Semel_Fence` is `Semel-Fence`: services that get headers as variables
//!    (CGI, WSGI) cannot tell one from the other.
//! 2. Of a response, the allow-listed headers are kept, with repeats in order and every byte of their values.
//! 3. `Set-Cookie`, `Date`, hop-by-hop headers, and those that `Connection` names, are never kept, whatever the list says.
//! 4. `Content-Length` follows from the body. Only the answer to a `HEAD` keeps it, since there it says what a body would
//!    have had.

use super::IDEMPOTENCY_REPLAYED;
use ::http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, CONNECTION, CONTENT_LENGTH},
};
use semel_core::sabotage;

/// The headers of a response that are kept and replayed, unless the layer has a list of its own.
///
/// Those of CORS are among them, for a service that sets them below the layer, or behind it: without them a browser would
/// hide a replay from its page. A replay names the origin that the first answer named, whoever asks again: a page of another
/// origin cannot read it, as it could not have read that. A layer of CORS above this one puts its own in their place, as that of
/// `tower-http` does.
pub const REPLAY_HEADERS: [HeaderName; 35] = [
    header::ACCEPT_RANGES,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    header::CONTENT_SECURITY_POLICY,
    header::CONTENT_TYPE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::LINK,
    header::LOCATION,
    header::REFERRER_POLICY,
    header::RETRY_AFTER,
    header::VARY,
    header::WWW_AUTHENTICATE,
    header::X_CONTENT_TYPE_OPTIONS,
    header::X_FRAME_OPTIONS,
    HeaderName::from_static("accept-patch"),
    HeaderName::from_static("accept-post"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("cross-origin-resource-policy"),
    HeaderName::from_static("deprecation"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("preference-applied"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("sunset"),
];

/// Never kept, whatever a list says.
const NEVER: [HeaderName; 14] = [
    CONNECTION,
    header::DATE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::SET_COOKIE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    CONTENT_LENGTH,
    IDEMPOTENCY_REPLAYED,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("set-cookie2"),
];

const OWN_PREFIX: &str = "semel-";

/// Takes off what only Semel may say.
pub(super) fn strip_own(headers: &mut HeaderMap) {
    if sabotage::is_on("http_replayed_header_forged") {
        return;
    }
    if !headers.keys().any(is_own) {
        return;
    }
    let own: Vec<HeaderName> = headers.keys().filter(|it| is_own(it)).cloned().collect();
    for name in own {
        headers.remove(name);
    }
}

pub(crate) fn is_own(name: &HeaderName) -> bool {
    let name = name.as_str();
    // The first letter tells for nearly all of them.
    match name.as_bytes().first() {
        Some(b's') => name.get(..OWN_PREFIX.len()).is_some_and(|it| reads_as(it, OWN_PREFIX)),
        Some(b'i') => reads_as(name, IDEMPOTENCY_REPLAYED.as_str()),
        Some(_) | None => false,
    }
}

/// Whether a name is this one for those who take `_` for `-`.
fn reads_as(name: &str, own: &str) -> bool {
    let is_same = |(it, own): (u8, u8)| it == own || (it == b'_' && own == b'-');
    name.len() == own.len() && name.bytes().zip(own.bytes()).all(is_same)
}

/// Which headers of a response are kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept(Vec<HeaderName>);

impl Kept {
    /// Those of the list that may be.
    pub(crate) fn new(names: impl IntoIterator<Item = HeaderName>) -> Self {
        let mut names: Vec<_> = names.into_iter().filter(is_replayable).collect();
        names.sort_by(|one, other| {
            (one.as_str().len(), one.as_str()).cmp(&(other.as_str().len(), other.as_str()))
        });
        names.dedup();
        Self(names)
    }

    /// The kept headers of a response, in their order.
    pub(crate) fn of<'a>(
        &'a self,
        headers: &'a HeaderMap,
        is_head: bool,
    ) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
        let names_others = headers.contains_key(CONNECTION);
        headers.iter().filter(move |(name, _)| {
            let is_length = is_head && **name == CONTENT_LENGTH;
            let is_cookie = **name == header::SET_COOKIE && sabotage::is_on("http_set_cookie_replayed");
            is_length
                || is_cookie
                || (self.lists(name) && !(names_others && is_named_by_connection(headers, name)))
        })
    }

    fn lists(&self, name: &HeaderName) -> bool {
        // Told apart by their lengths first: most names differ there.
        let order =
            |it: &HeaderName| (it.as_str().len(), it.as_str()).cmp(&(name.as_str().len(), name.as_str()));
        self.0.binary_search_by(order).is_ok()
    }
}

/// The trailers that are kept: all that may be.
pub(super) fn kept_trailers(trailers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    trailers.iter().filter(|(name, _)| is_replayable(name))
}

/// Whether a header of a response may be replayed. What belongs to one connection, to one client or to one moment never is,
/// nor what only Semel says, whatever [`replay_headers`](super::IdempotencyLayer::replay_headers) lists.
///
/// ```
/// use semel::http::is_replayable;
/// assert!(is_replayable(&http::header::LOCATION));
/// assert!(!is_replayable(&http::header::SET_COOKIE));
/// ```
pub fn is_replayable(name: &HeaderName) -> bool {
    !NEVER.contains(name) && !is_own(name)
}

fn is_named_by_connection(headers: &HeaderMap, name: &HeaderName) -> bool {
    let options = headers.get_all(CONNECTION).iter().flat_map(|it| it.as_bytes().split(|byte| *byte == b','));
    options.into_iter().any(|it| it.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn kept(list: &Kept, lines: &[(&'static str, &str)], is_head: bool) -> Vec<String> {
        let headers = map(lines);
        list.of(&headers, is_head)
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn repeats_stay_in_order_and_commas_where_they_were() {
        let list = Kept::new(REPLAY_HEADERS);
        let lines = [("link", "<a>, <b>"), ("etag", "\"x\""), ("link", "<c>"), ("x-other", "1")];
        let mut lines = kept(&list, &lines, false);
        lines.sort_by_key(|it| it.starts_with("etag"));
        assert_eq!(lines, ["link: <a>, <b>", "link: <c>", "etag: \"x\""]);
    }

    #[test]
    fn what_must_never_be_replayed_is_not_even_if_it_is_listed() {
        let semel = HeaderName::from_static("semel-fence");
        let list = Kept::new(NEVER.into_iter().chain([semel, header::ETAG]));
        let headers: HeaderMap =
            NEVER.into_iter().chain([header::ETAG]).map(|it| (it, HeaderValue::from_static("x"))).collect();
        let kept: Vec<_> = list.of(&headers, false).map(|(name, _)| name.as_str()).collect();
        assert_eq!(kept, ["etag"]);
    }

    #[test]
    fn what_connection_names_is_for_this_hop_only() {
        let list = Kept::new(REPLAY_HEADERS);
        let lines = [("connection", "close, ETag"), ("etag", "\"x\""), ("vary", "*")];
        assert_eq!(kept(&list, &lines, false), ["vary: *"]);
    }

    #[test]
    fn only_the_answer_to_a_head_keeps_its_length() {
        let list = Kept::new(REPLAY_HEADERS);
        assert_eq!(kept(&list, &[("content-length", "7")], true), ["content-length: 7"]);
        assert!(kept(&list, &[("content-length", "7")], false).is_empty());
    }

    #[test]
    fn what_is_our_own_is_taken_off() {
        let mut headers = map(&[
            ("idempotency-replayed", "true"),
            ("semel-fence", "1"),
            ("semel-anything", "1"),
            ("semel_fence", "1"),
            ("idempotency_replayed", "true"),
            ("idempotency-_replayed", "1"),
            ("semelweis", "1"),
            ("idempotency-key", "k"),
        ]);
        headers.append("semel-fence", "2".parse().unwrap());
        strip_own(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["idempotency-_replayed", "idempotency-key", "semelweis"]);
    }
}
