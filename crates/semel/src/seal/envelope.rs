//! How sealed bytes and texts are laid out. Which key they need can be read without it.
//!
//! | a result, in bytes | an error, in text |
//! |---|---|
//! | [`SEALED`], the length of the key's id, the key's id | `semel:sealed:`, the key's id, `:` |
//! | nonce, encrypted result, tag | the same of the text, in base64 without padding |
//!
//! Another cipher will have another first byte, and another mark.

use crate::codec::SEALED;

/// Longest id of a key, in bytes.
pub const KEY_ID_BYTES_MAX: usize = 32;

/// Before a text that is sealed.
pub(super) const MARK: &str = "semel:sealed:";

/// The id of the key that sealed these bytes, and what it sealed.
pub(super) fn of_bytes(stored: &[u8]) -> Option<(&str, &[u8])> {
    let [SEALED, length, rest @ ..] = stored else { return None };
    let (key_id, sealed) = rest.split_at_checked(usize::from(*length))?;
    let key_id = str::from_utf8(key_id).ok().filter(|it| is_key_id(it))?;
    Some((key_id, sealed))
}

/// The id of the key that sealed this text, and what it sealed, in base64. None of a text that is plain.
pub(super) fn of_text(stored: &str) -> Option<(&str, &str)> {
    let (key_id, sealed) = stored.strip_prefix(MARK)?.split_once(':')?;
    let is_base64 = |it: &str| it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
    (is_key_id(key_id) && is_base64(sealed)).then_some((key_id, sealed))
}

/// Whether this can be the id of a key.
pub(super) fn is_key_id(text: &str) -> bool {
    (1..=KEY_ID_BYTES_MAX).contains(&text.len()) && text.chars().all(is_in_key_id)
}

/// Whether this can be part of the id of a key: it needs no quoting in messages, variables and file names.
pub(super) fn is_in_key_id(character: char) -> bool {
    character.is_ascii_alphanumeric() || "._-".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_laid_out_like_it_is_sealed() {
        assert_eq!(of_bytes(b"S\x02k1rest"), Some(("k1", b"rest".as_slice())));
        assert_eq!(of_bytes(b"S\x02k1"), Some(("k1", b"".as_slice())));
        let others: [&[u8]; 7] =
            [b"", b"S", b"S\x00rest", b"S\x09k1", b"S\x02k\xff", b"S\x02k\n", b"\x01\x02k1"];
        for other in others {
            assert_eq!(of_bytes(other), None, "{other:?}");
        }
        let long = [&[SEALED, 33], [b'k'; 33].as_slice()].concat();
        assert_eq!(of_bytes(&long), None);

        assert_eq!(of_text("semel:sealed:k1:AAAA"), Some(("k1", "AAAA")));
        let others =
            ["declined", "sealed:k1:AAAA", "semel:sealed:k1", "semel:sealed::AAAA", "semel:sealed:k1:not so"];
        for other in others {
            assert_eq!(of_text(other), None, "{other}");
        }
    }
}
