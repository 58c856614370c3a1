//! Which protocol a connection speaks, by its first bytes.

/// What a client of HTTP/2 begins with.
const HTTP2: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the first bytes say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Preface {
    Http1,
    Http2,
    /// More bytes are needed.
    Undecided,
}

/// What these first bytes say.
pub(super) fn preface(bytes: &[u8]) -> Preface {
    let common = bytes.len().min(HTTP2.len());
    match bytes[..common] == HTTP2[..common] {
        false => Preface::Http1,
        true if common == HTTP2.len() => Preface::Http2,
        true => Preface::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell() {
        for n in 0..HTTP2.len() {
            assert_eq!(preface(&HTTP2[..n]), Preface::Undecided);
        }
        assert_eq!(preface(HTTP2), Preface::Http2);
        assert_eq!(preface(&[&HTTP2[..], b"\0\0\0"].concat()), Preface::Http2);
        assert_eq!(preface(b"G"), Preface::Http1);
        assert_eq!(preface(b"PROPFIND / HTTP/1.1\r\n"), Preface::Http1);
        assert_eq!(preface(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r"), Preface::Http1);
    }
}
