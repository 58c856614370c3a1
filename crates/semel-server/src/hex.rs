//! Bytes as hexadecimal digits.

/// Two digits for each byte.
pub(crate) fn write(bytes: &[u8]) -> String {
    let digit = |it: u8| char::from_digit(it.into(), 16).expect("half a byte is a digit");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// What [`write`] wrote; capitals are digits too.
pub(crate) fn read(text: &str) -> Option<Vec<u8>> {
    let digit = |it: &u8| char::from(*it).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some((digit(high)? * 16 + digit(low)?) as u8));
    rest.is_empty().then(|| bytes.collect()).flatten()
}
