//! Looking at a text eight bytes at a time.
//!
//! Most of what is read is plain, and to find that out is most of the work.

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const TOPS: u64 = ONES << 7;

/// The top bit of each byte that is zero, and perhaps of some behind the first of them.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & TOPS
}

/// The top bit of each byte that is a control character, and perhaps of some behind the first of them.
const fn controls(word: u64) -> u64 {
    word.wrapping_sub(ONES * b' ' as u64) & !word & TOPS
}

const fn equals(word: u64, byte: u8) -> u64 {
    zeros(word ^ (ONES * byte as u64))
}

/// How many bytes stand in a string as they are, from here: up to a quote, an escape or a control character.
///
/// ```
/// assert_eq!(semel_core::scan::plain_bytes(br#"a plain string" and more"#), 14);
/// ```
pub fn plain_bytes(rest: &[u8]) -> usize {
    let (words, _) = rest.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = controls(word) | equals(word, b'"') | equals(word, b'\\');
        if found != 0 {
            return n * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let last = words.len() * 8;
    let is_plain = |it: &&u8| **it >= b' ' && **it != b'"' && **it != b'\\';
    last + rest[last..].iter().take_while(is_plain).count()
}

/// Whether all of it is printable ASCII, spaces included.
///
/// ```
/// assert!(semel_core::scan::is_printable(b"order 7"));
/// assert!(!semel_core::scan::is_printable(b"order\n"));
/// ```
pub fn is_printable(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let others = words.iter().fold(0, |others, word| {
        let word = u64::from_le_bytes(*word);
        others | controls(word) | equals(word, 0x7f) | (word & TOPS)
    });
    others == 0 && rest.iter().all(|it| matches!(it, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every place of two words and a bit, among bytes that look like the marks but for a bit or two.
    fn each_text(check: impl Fn(&[u8])) {
        for filler in [b' ', b'!', b'#', b'[', b']', b'a', b'~', 0x7f, 0x80, 0xa2, 0xdc, 0xff] {
            for place in 0..20 {
                for byte in 0..=u8::MAX {
                    let mut text = [filler; 20];
                    text[place] = byte;
                    check(&text);
                }
            }
        }
        for length in 0..20 {
            check(&[b'a'; 20][..length]);
        }
    }

    #[test]
    fn eight_bytes_at_a_time_stop_where_one_at_a_time_do() {
        let is_plain = |it: &&u8| **it >= b' ' && **it != b'"' && **it != b'\\';
        each_text(|text| {
            assert_eq!(plain_bytes(text), text.iter().take_while(is_plain).count(), "{text:x?}");
        });
    }

    #[test]
    fn eight_bytes_at_a_time_are_printable_if_each_is() {
        let is_printable_alone = |it: &u8| matches!(it, b' '..=b'~');
        each_text(|text| assert_eq!(is_printable(text), text.iter().all(is_printable_alone), "{text:x?}"));
    }
}
