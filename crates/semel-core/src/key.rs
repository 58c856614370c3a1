//! What names one operation.
//!
//! 1. A key is a *scope* (a function, or service + route + caller) and an *id* (event source + id, a natural
//!    business key, a client's `Idempotency-Key`). Each is a list of typed parts.
//! 2. Its identity is SHA-256 over the length-prefixed, tagged parts, so no two part lists share one: not
//!    `("a/b", "c")` and `("a", "b/c")`, not `1` and `"1"`.
//! 3. The parts themselves are kept: whoever looks at a record sees `process-order/evt-1`, not a hash.
//! 4. A missing id is refused, never guessed: empty, blank, `None`, and a composite of nothing but `None`.
//! 5. An effect's key stands below its handler's: same scope and id, and a path of its own.
//!
//! It does not trim, fold case or normalise Unicode: what the user calls equal must be equal bytes.

mod by_identity;
mod parts;

pub use by_identity::{ByIdentity, IdentityHasher};

use crate::{hex::Hex, sabotage::is_on, scan::is_printable, scratch::with_bytes, sha256::sha256};
use std::{fmt, sync::Arc};

/// Longest scope, in bytes over all its parts.
pub const SCOPE_BYTES_MAX: usize = 512;
/// Longest id, in bytes over all its parts.
pub const ID_BYTES_MAX: usize = 1024;
/// Longest name of an effect below its handler's or another effect's key, in bytes over all its parts.
pub const EFFECT_BYTES_MAX: usize = 1024;
/// Longest path of effects below effects, in bytes as stored.
pub const EFFECT_PATH_BYTES_MAX: usize = 8 * 1024;
/// Most parts in a scope, an id or an effect's path.
pub const PARTS_MAX: usize = 16;

const PREIMAGE_VERSION: u8 = 1;

/// One typed part of a key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// A value that is not there. Allowed beside others, never alone.
    Null,
    /// Text, compared byte for byte.
    Text(String),
    /// A whole number of any width.
    Integer(i128),
    /// Yes or no.
    Boolean(bool),
    /// Bytes as they are, such as a UUID's sixteen.
    Bytes(Vec<u8>),
}

/// A part that is borrowed: what [`Key::of_refs`] is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartRef<'a> {
    /// See [`Part::Null`].
    Null,
    /// See [`Part::Text`].
    Text(&'a str),
    /// See [`Part::Integer`].
    Integer(i128),
    /// See [`Part::Boolean`].
    Boolean(bool),
    /// See [`Part::Bytes`].
    Bytes(&'a [u8]),
}

impl<'a> From<&'a Part> for PartRef<'a> {
    fn from(part: &'a Part) -> Self {
        match part {
            Part::Null => Self::Null,
            Part::Text(text) => Self::Text(text),
            Part::Integer(it) => Self::Integer(*it),
            Part::Boolean(it) => Self::Boolean(*it),
            Part::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

/// What makes up the scope or the id of a key: one value, or a tuple, array or list of them.
///
/// ```
/// use semel_core::key::Key;
/// Key::new("process-order", "evt-1")?;
/// Key::new(("orders", "POST /orders"), ("customer-7", 42, Some("2026-11")))?;
/// assert!(Key::new("process-order", None::<&str>).is_err());
/// assert!(Key::new("process-order", (None::<&str>, None::<u32>)).is_err());
/// # Ok::<(), semel_core::key::KeyError>(())
/// ```
pub trait IntoParts {
    /// Appends this value's parts.
    fn append_to(self, parts: &mut Vec<Part>);
}

/// SHA-256 over a key's parts: what stores look records up by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity([u8; 32]);

impl Identity {
    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// An identity read back from a store.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Hex::of(&self.0).as_str())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

/// Names one operation. Cheap to clone.
///
/// ```
/// use semel_core::key::Key;
/// let key = Key::new("process-order", "evt-1")?;
/// assert_eq!(key.to_string(), "process-order/evt-1");
/// assert_eq!(key.effect("charge")?.to_string(), "process-order/evt-1#charge");
/// # Ok::<(), semel_core::key::KeyError>(())
/// ```
#[derive(Clone)]
pub struct Key {
    /// The parts, length-prefixed and tagged: what the identity is the hash of.
    preimage: Arc<[u8]>,
    /// Where the id's parts begin in the preimage, and where the effect's do.
    starts: (u16, u16),
    identity: Identity,
}

/// Why something is no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field} {fault}")]
pub struct KeyError {
    field: Field,
    fault: Fault,
}

impl KeyError {
    /// Whether the value was missing (empty, blank, or all null), as opposed to malformed.
    pub const fn is_missing(&self) -> bool {
        matches!(self.fault, Fault::Missing | Fault::Blank)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum Field {
    #[error("the key's scope")]
    Scope,
    #[error("the key's id")]
    Id,
    #[error("the effect's name")]
    Effect,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum Fault {
    #[error("is missing: give it at least one value that is not null")]
    Missing,
    #[error("has an empty or blank part: leave it out, or pass `None`")]
    Blank,
    #[error("contains a control character: hash or encode the value first")]
    Control,
    #[error("is longer than {0} bytes: hash the value first")]
    TooLong(usize),
    #[error("has more than {PARTS_MAX} parts")]
    TooMany,
    #[error("cannot be read back: the stored bytes are not a key")]
    Malformed,
}

impl Key {
    /// A key of this scope and id.
    pub fn new(scope: impl IntoParts, id: impl IntoParts) -> Result<Self, KeyError> {
        let (mut scopes, mut ids) = (Vec::new(), Vec::new());
        scope.append_to(&mut scopes);
        id.append_to(&mut ids);
        Self::of_lists(scopes.iter().map(PartRef::from), ids.iter().map(PartRef::from))
    }

    /// As [`Key::new`], for those who have the parts already: nothing is copied but what the key keeps.
    ///
    /// ```
    /// use semel_core::key::{Key, PartRef};
    /// let key = Key::of_refs(&[PartRef::Text("orders")], &[PartRef::Bytes(&[7]), PartRef::Text("evt-1")])?;
    /// assert_eq!(key, Key::new("orders", (&[7_u8][..], "evt-1"))?);
    /// # Ok::<(), semel_core::key::KeyError>(())
    /// ```
    pub fn of_refs(scope: &[PartRef<'_>], id: &[PartRef<'_>]) -> Result<Self, KeyError> {
        Self::of_lists(scope.iter().copied(), id.iter().copied())
    }

    fn of_lists<'a>(
        scope: impl ExactSizeIterator<Item = PartRef<'a>> + Clone,
        id: impl ExactSizeIterator<Item = PartRef<'a>> + Clone,
    ) -> Result<Self, KeyError> {
        with_bytes(|preimage| {
            preimage.push(PREIMAGE_VERSION);
            append_list(preimage, scope, Field::Scope, SCOPE_BYTES_MAX)?;
            let id_start = preimage.len();
            append_list(preimage, id, Field::Id, ID_BYTES_MAX)?;
            Ok(Self::hashed(preimage, id_start, preimage.len()))
        })
    }

    /// The key of an effect below this one. An effect of an effect stands below that.
    pub fn effect(&self, path: impl IntoParts) -> Result<Self, KeyError> {
        let mut preimage = self.preimage.to_vec();
        let mut parts = Vec::new();
        path.append_to(&mut parts);
        append_list(&mut preimage, parts.iter().map(PartRef::from), Field::Effect, EFFECT_BYTES_MAX)?;
        if preimage.len() - usize::from(self.starts.1) > EFFECT_PATH_BYTES_MAX {
            return Err(KeyError { field: Field::Effect, fault: Fault::TooLong(EFFECT_PATH_BYTES_MAX) });
        }
        Ok(Self::hashed(&preimage, self.starts.0.into(), self.starts.1.into()))
    }

    fn hashed(preimage: &[u8], id_start: usize, effect_start: usize) -> Self {
        let identity = Identity(sha256(preimage));
        Self { preimage: preimage.into(), starts: (id_start as u16, effect_start as u16), identity }
    }

    /// What stores look the record up by.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The parts as bytes, for stores to keep beside the record; [`Key::from_preimage`] reads them back.
    pub fn preimage(&self) -> &[u8] {
        &self.preimage
    }

    /// Reads back what [`Key::preimage`] gave, and checks it as if it were new.
    pub fn from_preimage(bytes: &[u8]) -> Result<Self, KeyError> {
        let malformed = KeyError { field: Field::Id, fault: Fault::Malformed };
        let mut rest = bytes.strip_prefix(&[PREIMAGE_VERSION]).ok_or(malformed)?;
        let mut starts = Vec::new();
        while !rest.is_empty() {
            let bytes_max = match starts.len() {
                0 => SCOPE_BYTES_MAX,
                1 => ID_BYTES_MAX,
                _ => EFFECT_BYTES_MAX,
            };
            starts.push(bytes.len() - rest.len());
            let (parts, tail) = split_list(rest).ok_or(malformed)?;
            if !is_list(&parts, bytes_max) {
                return Err(malformed);
            }
            rest = tail;
        }
        match starts[..] {
            [_, id] => Ok(Self::hashed(bytes, id, bytes.len())),
            [_, id, effect, ..] if bytes.len() - effect <= EFFECT_PATH_BYTES_MAX => {
                Ok(Self::hashed(bytes, id, effect))
            }
            [..] => Err(malformed),
        }
    }

    /// The key that an effect's stands below; `None` if this is no effect's.
    ///
    /// ```
    /// use semel_core::key::Key;
    /// let key = Key::new("process-order", "evt-1")?;
    /// assert_eq!(key.effect("charge")?.parent(), Some(key.clone()));
    /// assert_eq!(key.parent(), None);
    /// # Ok::<(), semel_core::key::KeyError>(())
    /// ```
    pub fn parent(&self) -> Option<Self> {
        let mut start = usize::from(self.starts.1);
        loop {
            let (_, rest) = split_list(&self.preimage[start..])?;
            if rest.is_empty() {
                let above = &self.preimage[..start];
                return Some(Self::hashed(above, self.starts.0.into(), self.starts.1.into()));
            }
            start = self.preimage.len() - rest.len();
        }
    }

    /// The scope's part of the preimage: the same for two keys if their scopes are the same.
    pub fn scope_preimage(&self) -> &[u8] {
        &self.preimage[1..self.starts.0.into()]
    }

    /// The scope, readable: its parts joined by `:`.
    pub fn scope(&self) -> String {
        render(&self.preimage[1..self.starts.0.into()])
    }

    /// The id, readable: its parts joined by `:`.
    pub fn id(&self) -> String {
        render(&self.preimage[self.starts.0.into()..self.starts.1.into()])
    }

    /// The effect's path, readable, if this is an effect's key.
    pub fn effect_path(&self) -> Option<String> {
        let path = &self.preimage[self.starts.1.into()..];
        (!path.is_empty()).then(|| render(path))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}
impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scope(), self.id())?;
        self.effect_path().map_or(Ok(()), |path| write!(f, "#{path}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Appends a checked list: a count, then a tag, a length and the bytes of each part.
fn append_list<'a>(
    preimage: &mut Vec<u8>,
    parts: impl ExactSizeIterator<Item = PartRef<'a>> + Clone,
    field: Field,
    bytes_max: usize,
) -> Result<(), KeyError> {
    let fault = |fault| Err(KeyError { field, fault });
    if parts.clone().all(|it| it == PartRef::Null) {
        return fault(Fault::Missing);
    }
    if parts.len() > PARTS_MAX {
        return fault(Fault::TooMany);
    }
    preimage.push(parts.len() as u8);
    let mut bytes = 0;
    for part in parts {
        let number;
        let (tag, content): (u8, &[u8]) = match part {
            PartRef::Null => (0, &[]),
            PartRef::Text(text) if is_blank(text) => return fault(Fault::Blank),
            PartRef::Text(text) if has_control(text) => return fault(Fault::Control),
            PartRef::Text(text) => (1, text.as_bytes()),
            PartRef::Integer(it) => {
                number = it.to_be_bytes();
                (2, shortest(&number))
            }
            PartRef::Boolean(it) => (3, if it { &[1] } else { &[0] }),
            PartRef::Bytes([]) => return fault(Fault::Blank),
            PartRef::Bytes(bytes) => (4, bytes),
        };
        bytes += content.len();
        if bytes > bytes_max {
            return fault(Fault::TooLong(bytes_max));
        }
        let [high, low] = (content.len() as u16).to_be_bytes();
        if is_on("key_parts_without_lengths") {
            preimage.push(tag);
        } else {
            preimage.extend_from_slice(&[tag, high, low]);
        }
        preimage.extend_from_slice(content);
    }
    Ok(())
}

/// Whether a text can be part of a key, if it is not too long: it is not blank, and has no control characters.
pub fn is_text(text: &str) -> bool {
    !is_blank(text) && !has_control(text)
}

/// Whether there is nothing in a text but space.
fn is_blank(text: &str) -> bool {
    // The first byte tells for nearly all of them.
    !text.bytes().any(|it| it.is_ascii_graphic()) && text.trim().is_empty()
}

/// Whether there is a control character in a text.
fn has_control(text: &str) -> bool {
    !is_printable(text.as_bytes()) && text.chars().any(char::is_control)
}

/// A big-endian two's complement number without the leading bytes that only repeat its sign.
fn shortest(number: &[u8; 16]) -> &[u8] {
    let redundant = |pair: &&[u8]| match (pair[0], pair[1] & 0x80) {
        (0, 0) => true,
        (0xff, sign) => sign != 0,
        _ => false,
    };
    &number[number.windows(2).take_while(redundant).count()..]
}

type Encoded<'a> = (u8, &'a [u8]);

/// Splits one list off the front: its parts, and what follows.
fn split_list(bytes: &[u8]) -> Option<(Vec<Encoded<'_>>, &[u8])> {
    let (&count, mut rest) = bytes.split_first()?;
    let mut parts = Vec::with_capacity(count.into());
    for _ in 0..count {
        let (head, tail) = rest.split_at_checked(3)?;
        let length = u16::from_be_bytes([head[1], head[2]]);
        let (content, tail) = tail.split_at_checked(length.into())?;
        parts.push((head[0], content));
        rest = tail;
    }
    Some((parts, rest))
}

/// Whether [`append_list`] could have written these parts.
fn is_list(parts: &[Encoded<'_>], bytes_max: usize) -> bool {
    parts.len() <= PARTS_MAX
        && parts.iter().any(|(tag, _)| *tag != 0)
        && parts.iter().map(|(_, content)| content.len()).sum::<usize>() <= bytes_max
        && parts.iter().all(is_part)
}

fn is_part((tag, content): &Encoded<'_>) -> bool {
    match tag {
        0 => content.is_empty(),
        1 => std::str::from_utf8(content).is_ok_and(is_text),
        2 => widened(content).is_some_and(|number| shortest(&number) == *content),
        3 => *content == [0] || *content == [1],
        4 => !content.is_empty(),
        _ => false,
    }
}

/// What [`shortest`] was given, if this is what it gave.
fn widened(content: &[u8]) -> Option<[u8; 16]> {
    let sign = if content.first()? & 0x80 == 0 { 0 } else { 0xff };
    let mut number = [sign; 16];
    number[16_usize.checked_sub(content.len())?..].copy_from_slice(content);
    Some(number)
}

/// The lists in these bytes, readable: parts joined by `:`, lists by `#`.
fn render(mut bytes: &[u8]) -> String {
    let mut lists = Vec::new();
    while let Some((parts, rest)) = split_list(bytes) {
        lists.push(parts.into_iter().map(render_part).collect::<Vec<_>>().join(":"));
        bytes = rest;
    }
    lists.join("#")
}

fn render_part((tag, content): Encoded<'_>) -> String {
    match tag {
        0 => "null".to_owned(),
        1 => String::from_utf8_lossy(content).into_owned(),
        2 => i128::from_be_bytes(widened(content).unwrap_or_default()).to_string(),
        3 => (content == [1]).to_string(),
        _ => content.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}")),
    }
}
