//! The bytes of a connection, cut in any way: see [`crate::fuzz`].

use super::{
    Limits,
    inspect::{Inspector, Phase},
};
use crate::problem::Problem;
use std::sync::Arc;

/// How many places the bytes are cut at, at most.
const CUTS_MAX: usize = 64;

/// What becomes of a connection does not depend on the pieces that its bytes come in.
pub(crate) fn http1(bytes: &[u8]) {
    let small = Limits { uri_bytes_max: 64, head_bytes_max: 512, headers_max: 8, ..Limits::default() };
    for limits in [Limits::default(), small] {
        // Where something is too long, it is told as soon as that is seen: there may be two reasons.
        let has_one_reason = bytes.len() <= limits.uri_bytes_max;
        let limits = Arc::new(limits);
        let whole = inspected(&limits, &[bytes]);
        let check = |pieces: &[&[u8]], how: &str| {
            let found = inspected(&limits, pieces);
            let is_same = if has_one_reason { found == whole } else { found.ok() == whole.ok() };
            assert!(is_same, "{how}: {found:?}, but whole: {whole:?}");
        };
        check(&bytes.chunks(1).collect::<Vec<_>>(), "byte by byte");
        check(&bytes.chunks(7).collect::<Vec<_>>(), "in sevens");
        for at in (0..bytes.len()).step_by(bytes.len() / CUTS_MAX + 1) {
            let (one, other) = bytes.split_at(at);
            check(&[one, other], &format!("cut at {at}"));
        }
    }
}

fn inspected(limits: &Arc<Limits>, pieces: &[&[u8]]) -> Result<Phase, Problem> {
    let mut inspector = Inspector::new(Arc::clone(limits));
    pieces.iter().try_for_each(|it| inspector.inspect(it)).map(|()| inspector.phase())
}
