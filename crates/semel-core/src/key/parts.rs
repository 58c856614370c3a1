//! The types that keys are made of.

use super::{IntoParts, Part};

impl IntoParts for Part {
    fn append_to(self, parts: &mut Vec<Part>) {
        parts.push(self);
    }
}

impl IntoParts for &str {
    fn append_to(self, parts: &mut Vec<Part>) {
        parts.push(Part::Text(self.to_owned()));
    }
}

impl IntoParts for String {
    fn append_to(self, parts: &mut Vec<Part>) {
        parts.push(Part::Text(self));
    }
}

impl IntoParts for bool {
    fn append_to(self, parts: &mut Vec<Part>) {
        parts.push(Part::Boolean(self));
    }
}

impl IntoParts for &[u8] {
    fn append_to(self, parts: &mut Vec<Part>) {
        parts.push(Part::Bytes(self.to_vec()));
    }
}

impl<T: IntoParts> IntoParts for Option<T> {
    fn append_to(self, parts: &mut Vec<Part>) {
        match self {
            Some(it) => it.append_to(parts),
            None => parts.push(Part::Null),
        }
    }
}

impl<T: IntoParts> IntoParts for Vec<T> {
    fn append_to(self, parts: &mut Vec<Part>) {
        for it in self {
            it.append_to(parts);
        }
    }
}

impl<T: IntoParts, const N: usize> IntoParts for [T; N] {
    fn append_to(self, parts: &mut Vec<Part>) {
        for it in self {
            it.append_to(parts);
        }
    }
}

macro_rules! by_clone {
    ($($kind:ty),*) => {$(
        impl IntoParts for &$kind {
            fn append_to(self, parts: &mut Vec<Part>) {
                self.clone().append_to(parts);
            }
        }
    )*};
}
by_clone!(Part, String, bool, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, usize);

impl<T: Clone + IntoParts> IntoParts for &Option<T> {
    fn append_to(self, parts: &mut Vec<Part>) {
        self.clone().append_to(parts);
    }
}

impl IntoParts for &&str {
    fn append_to(self, parts: &mut Vec<Part>) {
        (*self).append_to(parts);
    }
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl IntoParts for $kind {
            fn append_to(self, parts: &mut Vec<Part>) {
                parts.push(Part::Integer(i128::from(self)));
            }
        }
    )*};
}
integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

impl IntoParts for usize {
    fn append_to(self, parts: &mut Vec<Part>) {
        (self as u64).append_to(parts);
    }
}

impl IntoParts for isize {
    fn append_to(self, parts: &mut Vec<Part>) {
        (self as i64).append_to(parts);
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: IntoParts),*> IntoParts for ($($name,)*) {
            fn append_to(self, parts: &mut Vec<Part>) {
                #[expect(non_snake_case, reason = "one name serves as the type and the value")]
                let ($($name,)*) = self;
                $($name.append_to(parts);)*
            }
        }
    };
}
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
