//! Scopes as labels: a bounded set, that all calls look into and few add to.
//!
//! 1. The first [`SCOPES_MAX`] get a label of their own, the rest share one.
//! 2. Who looks one up writes nothing that others read: calls that run at once do not wait for each other here.
//! 3. What was found is a number. It means something to the table that it was found in, and to no other.

use super::{SCOPES_MAX, count::Names};
use crate::hashing::Seeded;
use semel_core::key::Key;
use std::{
    hash::BuildHasher,
    sync::{Mutex, OnceLock},
};

/// A scope as a label: one of a bounded set.
#[derive(Clone, Copy)]
pub(crate) struct Scope(Option<u8>);

/// Places for scopes. Some always stay free, so that a search ends.
const PLACES: usize = 256;
const _: () = assert!(SCOPES_MAX < PLACES && PLACES - 1 <= u8::MAX as usize);

/// All that are known.
pub(super) struct Scopes {
    seed: Seeded,
    /// Each stands at its hash, or in the first place behind that which was free.
    places: Box<[OnceLock<Box<Known>>]>,
    /// How many there are; taken by whoever adds one.
    count: Mutex<usize>,
    other: Names,
}

struct Known {
    /// Its part of a key's preimage, so that none is rendered twice.
    preimage: Box<[u8]>,
    names: Names,
}

impl Scopes {
    pub(super) fn new() -> Self {
        let places = (0..PLACES).map(|_| OnceLock::new()).collect();
        Self { seed: Seeded::default(), places, count: Mutex::new(0), other: Names::new("other") }
    }

    /// The key's scope.
    pub(super) fn of(&self, key: &Key) -> Scope {
        self.find(key.scope_preimage()).unwrap_or_else(|_| self.add(key))
    }

    /// What the scope's numbers are called.
    pub(super) fn names(&self, scope: Scope) -> &Names {
        let known = scope.0.and_then(|place| self.places[usize::from(place)].get());
        known.map_or(&self.other, |it| &it.names)
    }

    /// Where it stands, or else could.
    fn find(&self, preimage: &[u8]) -> Result<Scope, usize> {
        let mut place = self.seed.hash_one(preimage) as usize % PLACES;
        while let Some(known) = self.places[place].get() {
            if *known.preimage == *preimage {
                return Ok(Scope(Some(place as u8)));
            }
            place = (place + 1) % PLACES;
        }
        Err(place)
    }

    #[cold]
    fn add(&self, key: &Key) -> Scope {
        let mut count = self.count.lock().expect("no code panics while it adds a scope");
        let preimage = key.scope_preimage();
        let place = match self.find(preimage) {
            // Somebody else was first.
            Ok(scope) => return scope,
            Err(_) if *count >= SCOPES_MAX => return Scope(None),
            Err(place) => place,
        };
        let names = Names::new(&key.scope());
        self.places[place].get_or_init(|| Box::new(Known { preimage: preimage.into(), names }));
        *count += 1;
        Scope(Some(place as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_first_scopes_have_places_of_their_own_and_the_rest_share_one() {
        let scopes = Scopes::new();
        let of = |number: usize| scopes.of(&Key::new(number as u64, 1).expect("a key")).0;
        let places: Vec<_> = (0..SCOPES_MAX).map(of).collect();
        assert!(places.iter().all(Option::is_some));
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), SCOPES_MAX);
        assert_eq!(of(SCOPES_MAX), None);
        assert_eq!((0..SCOPES_MAX).map(of).collect::<Vec<_>>(), places, "they are found again");
    }

    #[test]
    fn those_who_add_a_scope_at_once_find_one_place() {
        let scopes = Scopes::new();
        let found: Vec<_> = std::thread::scope(|threads| {
            let of = |id: u64| scopes.of(&Key::new("orders", id).expect("a key")).0;
            let threads: Vec<_> = (0..8).map(|id| threads.spawn(move || of(id))).collect();
            threads.into_iter().map(|it| it.join().expect("it does not panic")).collect()
        });
        assert!(found[0].is_some() && found.iter().all(|it| *it == found[0]));
    }
}
