//! A page for each problem: what happened, why, and what to do about it.
//!
//! The `type` of a problem is the address of its page: of one of these, unless the layer has a
//! [`problem_base`](super::IdempotencyLayer::problem_base) of its own, to which the problem's slug is appended. The pages are
//! also in the crate's source, as `src/http/problems/*.md`, for those who want to put them elsewhere.
//!
//! Every problem is `application/problem+json` (RFC 9457) with the members `type`, `title`, `status` and `detail`. The texts
//! are fixed: nothing of a request is echoed. Programs branch on `type` or `status`, people read the rest. Who speaks gRPC gets a
//! `grpc-status` by what is to be done about it, and a `grpc-message` that ends with the address of the page.

use super::Problem;
use ::http::StatusCode;

/// Where the pages are.
pub(super) const DOCS: &str = "https://docs.rs/semel/latest/semel/http/problems/";

macro_rules! problems {
    ($($module:ident $NAME:ident $status:ident $slug:literal: $title:literal, $detail:literal;)*) => {
        impl Problem {
            $(
                #[doc = concat!($title, ": [`", stringify!($module), "`].")]
                #[doc = ""]
                #[doc = concat!("[`", stringify!($module), "`]: super::problems::", stringify!($module))]
                pub const $NAME: Self = Self::new(StatusCode::$status, $slug, $title, $detail);
            )*

            /// All that Semel itself answers with.
            pub const ALL: &[Self] = &[$(Self::$NAME),*];
        }

        $(
            #[doc = include_str!(concat!("problems/", $slug, ".md"))]
            pub mod $module {}
        )*

        /// The page of each problem, in the order of [`Problem::ALL`].
        #[cfg(test)]
        const PAGES: &[&str] = &[$(include_str!(concat!("problems/", $slug, ".md"))),*];
    };
}

problems! {
    key_missing KEY_MISSING BAD_REQUEST "key-missing":
        "Idempotency-Key is missing",
        "This operation needs an `Idempotency-Key`. Send the request again with one: a new, random value for each operation, the same one for each try.";
    key_invalid KEY_INVALID BAD_REQUEST "key-invalid":
        "Idempotency-Key is invalid",
        "The `Idempotency-Key` must be one header with 1 to 255 printable ASCII characters, as a quoted string.";
    caller_missing CALLER_MISSING UNAUTHORIZED "caller-missing":
        "The caller is not known",
        "A request with an `Idempotency-Key` must say who sends it. Send it again with credentials.";
    in_progress IN_PROGRESS CONFLICT "in-progress":
        "A request with this key is in progress",
        "A request with the same `Idempotency-Key` is being worked on. Send it again later, with the same key.";
    response_not_retained RESPONSE_NOT_RETAINED CONFLICT "response-not-retained":
        "The response was not retained",
        "The request with this `Idempotency-Key` was carried out, but its response is not kept. Do not send it again: look at the result instead.";
    outcome_unknown OUTCOME_UNKNOWN CONFLICT "outcome-unknown":
        "The outcome is unknown",
        "Whether the request with this `Idempotency-Key` was carried out cannot be told. Somebody has to find out.";
    outcome_unconfirmed OUTCOME_UNCONFIRMED SERVICE_UNAVAILABLE "outcome-unconfirmed":
        "The outcome is not confirmed",
        "The request was carried out, but this could not be recorded. Send it again later, with the same key, to learn what came of it.";
    interrupted INTERRUPTED SERVICE_UNAVAILABLE "interrupted":
        "The request was interrupted",
        "The request was begun, and interrupted before its outcome was known. Send it again later, with the same key: with a new one it might be done twice.";
    bad_request BAD_REQUEST BAD_REQUEST "bad-request":
        "The request cannot be read",
        "The request is malformed, or could be understood in more than one way.";
    request_incomplete REQUEST_INCOMPLETE BAD_REQUEST "request-incomplete":
        "The request ended early",
        "The body of the request could not be read to its end. Send it again, with the same key.";
    request_too_large REQUEST_TOO_LARGE PAYLOAD_TOO_LARGE "request-too-large":
        "The request is too large",
        "The body of the request is larger than this service takes.";
    mismatch MISMATCH UNPROCESSABLE_ENTITY "mismatch":
        "The key was used for another request",
        "This `Idempotency-Key` was used before, with another request. Use a new key for each operation.";
    quota QUOTA TOO_MANY_REQUESTS "quota":
        "Too many new keys",
        "This caller has as many `Idempotency-Key`s on record as it may. Send the request again later, with the same key.";
    internal INTERNAL INTERNAL_SERVER_ERROR "internal":
        "The request was not answered",
        "The service has failed to answer. Send the request again later, with the same key.";
    lease_missing LEASE_MISSING INTERNAL_SERVER_ERROR "lease-missing":
        "The service is set up wrongly",
        "The service needs an `Idempotency-Key` for this operation, and was not set up to require one.";
    store STORE SERVICE_UNAVAILABLE "store":
        "The record cannot be reached",
        "Whether this request was carried out before cannot be told now. Send it again later, with the same key.";
    busy BUSY SERVICE_UNAVAILABLE "busy":
        "The service is busy",
        "Too many large requests are under way. Send the request again later, with the same key.";
    uri_too_long URI_TOO_LONG URI_TOO_LONG "uri-too-long":
        "The address is too long",
        "The address of the request is longer than this service takes.";
    headers_too_large HEADERS_TOO_LARGE REQUEST_HEADER_FIELDS_TOO_LARGE "headers-too-large":
        "The headers are too large",
        "The headers of the request are more, or longer, than this service takes.";
    request_timeout REQUEST_TIMEOUT REQUEST_TIMEOUT "request-timeout":
        "The request came too slowly",
        "The request was not there in time. Send it again, with the same key.";
    upstream UPSTREAM BAD_GATEWAY "upstream":
        "The service behind the proxy did not answer",
        "The service behind the proxy could not be reached, or its answer could not be read. Send the request again later, with the same key.";
    upstream_timeout UPSTREAM_TIMEOUT GATEWAY_TIMEOUT "upstream-timeout":
        "The service behind the proxy took too long",
        "The service behind the proxy did not answer in time. Send the request again later, with the same key.";
    not_found NOT_FOUND NOT_FOUND "not-found":
        "There is no such address",
        "The proxy has nothing at this address.";
    operator_only OPERATOR_ONLY FORBIDDEN "operator-only":
        "Only an operator may ask for this",
        "This is for programs on the machine that the proxy runs on, which call it by its address or `localhost`.";
    media_type MEDIA_TYPE UNSUPPORTED_MEDIA_TYPE "media-type":
        "The media type is not read here",
        "What is sent here must be `application/json`, and say so.";
    no_record NO_RECORD NOT_FOUND "no-record":
        "There is no such record",
        "No request is recorded under what was named.";
    not_in_doubt NOT_IN_DOUBT CONFLICT "not-in-doubt":
        "The outcome is not in doubt",
        "Only a request whose outcome is unknown can be resolved, and this one's is not.";
    not_implemented NOT_IMPLEMENTED NOT_IMPLEMENTED "not-implemented":
        "The request asks for what is not supported",
        "The proxy does not support what the request asks for.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ProblemBase;

    #[test]
    fn every_problem_has_a_page_that_says_what_the_problem_says() {
        assert_eq!(Problem::ALL.len(), PAGES.len());
        for (problem, page) in Problem::ALL.iter().zip(PAGES) {
            let heading = format!("{} (`{}`).\n", problem.title(), problem.status().as_u16());
            assert!(
                page.starts_with(&heading),
                "the page of `{}` does not begin with `{heading}`",
                problem.slug()
            );
            for section in ["# Why", "# What the client should do", "# What the operator can do", "# Example"]
            {
                assert!(
                    page.contains(section),
                    "the page of `{}` has no section `{section}`",
                    problem.slug()
                );
            }
            let example = page.rsplit_once("\n\n{").expect("the example has a body").1;
            let example = format!("{{{}", example.split_once("```").expect("the example ends").0);
            let example: serde_json::Value = serde_json::from_str(&example).expect("the example is JSON");
            let base = ProblemBase::default();
            let body = match *problem {
                Problem::RESPONSE_NOT_RETAINED => problem.json_with_size(&base, 1_048_576),
                _ => problem.json(&base),
            };
            assert_eq!(example, serde_json::from_slice::<serde_json::Value>(&body).unwrap());
        }
    }

    #[test]
    fn a_type_is_the_address_of_its_page() {
        let mut seen = std::collections::BTreeSet::new();
        for problem in Problem::ALL {
            assert!(problem.slug().bytes().all(|it| it.is_ascii_lowercase() || it == b'-'));
            assert!(seen.insert(problem.slug()), "two problems are called `{}`", problem.slug());
            let module = problem.slug().replace('-', "_");
            assert_eq!(ProblemBase::default().address(problem), format!("{DOCS}{module}/index.html"));
        }
    }
}
