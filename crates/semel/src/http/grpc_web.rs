//! The status of a gRPC-web call, which stands in the last frame of its body.
//!
//! 1. A body is frames: a flag, a length in four bytes, and so many bytes. The highest bit of its flag marks the one that holds
//!    the trailers.
//! 2. `application/grpc-web-text` is the same in base64, of which each piece may end with padding.
//! 3. What is not whole, or compressed, says nothing.

/// Marks the frame of the trailers.
const TRAILERS: u8 = 0x80;
/// Marks a frame that is compressed.
const COMPRESSED: u8 = 0x01;

/// The `grpc-status` in a body of this type, if it is one of gRPC-web and says one.
pub(super) fn status(essence: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    const WEB: &[u8] = b"application/grpc-web";
    let rest =
        essence.get(..WEB.len()).filter(|it| it.eq_ignore_ascii_case(WEB)).map(|_| &essence[WEB.len()..])?;
    let is_text = rest.get(..5).is_some_and(|it| it.eq_ignore_ascii_case(b"-text"));
    if is_text { status_in(&of_base64(body)?) } else { status_in(body) }
}

fn status_in(mut frames: &[u8]) -> Option<Vec<u8>> {
    loop {
        let ([flag, length @ ..], rest) = frames.split_first_chunk::<5>()?;
        let (content, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if flag & TRAILERS != 0 {
            return if flag & COMPRESSED == 0 { status_of(content) } else { None };
        }
        frames = rest;
    }
}

fn status_of(trailers: &[u8]) -> Option<Vec<u8>> {
    trailers.split(|it| *it == b'\n').find_map(|line| {
        let colon = line.iter().position(|it| *it == b':')?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        name.trim_ascii().eq_ignore_ascii_case(b"grpc-status").then(|| value.trim_ascii().to_vec())
    })
}

fn of_base64(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |it: u8| match it {
        b'A'..=b'Z' => Some(it - b'A'),
        b'a'..=b'z' => Some(it - b'a' + 26),
        b'0'..=b'9' => Some(it - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (groups, []) = text.as_chunks::<4>() else { return None };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in groups {
        let padding = group.iter().rev().take_while(|it| **it == b'=').count();
        let mut bits = 0_u32;
        for character in group {
            let value = if *character == b'=' { Some(0) } else { digit(*character) };
            bits = bits << 6 | u32::from(value?);
        }
        let [_, decoded @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(decoded.get(..3_usize.checked_sub(padding)?)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINARY: &[u8] = b"application/grpc-web+proto";
    const TEXT: &[u8] = b"Application/gRPC-web-text+proto";

    fn body(trailers: &[u8]) -> Vec<u8> {
        let length = (trailers.len() as u32).to_be_bytes();
        [&b"\0\0\0\0\x02ab\x80"[..], &length, trailers].concat()
    }

    #[test]
    fn the_status_is_in_the_frame_of_the_trailers() {
        for (trailers, expected) in [
            (&b"grpc-status:14\r\n"[..], Some(&b"14"[..])),
            (b"grpc-message: no: 7\r\nGrpc-Status: 0\r\n", Some(b"0")),
            (b"x:1", None),
            (b"", None),
        ] {
            assert_eq!(status(BINARY, &body(trailers)).as_deref(), expected);
        }
        let whole = body(b"grpc-status:14");
        for cut in 0..whole.len() {
            assert_eq!(status(BINARY, &whole[..cut]), None, "{cut}");
        }
        assert_eq!(status(b"application/grpc", &whole), None);
        assert_eq!(status(b"application/json", &whole), None);
    }

    #[test]
    fn text_is_base64_in_pieces() {
        // A message and its trailers, encoded each for itself.
        let pieces = b"AAAAAAJhYg==gAAAAA5ncnBjLXN0YXR1czoxNA==";
        assert_eq!(status(TEXT, pieces).as_deref(), Some(&b"14"[..]));
        for wrong in [&b"AAAAAAJhYg"[..], b"AA=A", b"====", b"A\xffAA"] {
            assert_eq!(status(TEXT, wrong), None);
        }
    }
}
