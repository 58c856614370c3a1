//! One budget, shared by all functions.
//!
//! 1. Every function has a reserve that nobody else can take: its concurrency, or its part of half of the budget.
//! 2. The rest is a pool. Of it, a function may hold at most as much as is left for the others. So one that hangs takes
//!    half of the pool, two take a third each, and there is always something left.
//!
//! It does not know time, targets or events.

use semel_core::sabotage::is_on;

/// What a function has of the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// What nobody else can take.
    pub reserve: u32,
    /// What it has taken.
    pub taken: u32,
}

impl Part {
    /// What it has taken of the pool.
    pub const fn pooled(&self) -> u32 {
        self.taken.saturating_sub(self.reserve)
    }
}

/// The reserve of one of so many functions.
pub fn reserve(budget: u32, functions: u32, concurrency: u32) -> u32 {
    concurrency.min((budget / 2 / functions.max(1)).max(1))
}

/// How much more this function may take, when that much of the pool is free.
pub fn room(part: Part, pool_free: u32) -> u32 {
    if is_on("budget_without_reserve") {
        return pool_free;
    }
    let of_reserve = part.reserve.saturating_sub(part.taken);
    let of_pool = pool_free.saturating_sub(part.pooled()).div_ceil(2);
    of_reserve.saturating_add(of_pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_a_part_of_half_of_the_budget_and_at_least_one() {
        for (budget, functions, concurrency, expected) in
            [(100, 1, 10, 10), (100, 1, 100, 50), (100, 5, 100, 10), (10, 50, 100, 1), (100, 0, 7, 7)]
        {
            assert_eq!(reserve(budget, functions, concurrency), expected);
        }
    }

    /// The functions take whatever they may, one at a time and in turns, until nobody may take more.
    fn taken_by_all(reserves: &[u32], pool: u32) -> Vec<u32> {
        let mut parts: Vec<_> = reserves.iter().map(|&reserve| Part { reserve, taken: 0 }).collect();
        loop {
            let before = parts.clone();
            for index in 0..parts.len() {
                let free = pool - parts.iter().map(Part::pooled).sum::<u32>();
                parts[index].taken += room(parts[index], free).min(1);
            }
            if before == parts {
                return parts.iter().map(|it| it.taken).collect();
            }
        }
    }

    #[test]
    fn whoever_takes_all_it_may_leaves_something_for_the_others() {
        assert_eq!(taken_by_all(&[10], 60), [40]);
        assert_eq!(taken_by_all(&[10, 10], 60), [30, 30]);
        assert_eq!(taken_by_all(&[10, 10, 10, 10, 10], 60), [20; 5]);
    }

    #[test]
    fn a_hog_never_takes_the_reserve_of_another() {
        let hog = Part { reserve: 10, taken: 40 };
        assert_eq!(room(hog, 30), 0);
        assert_eq!(room(Part { reserve: 10, taken: 0 }, 30), 25);
        assert_eq!(room(Part { reserve: 10, taken: 0 }, 0), 10);
    }
}
