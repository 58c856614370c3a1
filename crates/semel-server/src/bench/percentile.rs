//! Which values are how usual.

/// The value below which this part of all values is, the nearest that there is; zero if there are none.
pub fn percentile(sorted: &[u64], part: f64) -> u64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0 };
    let at = ((sorted.len() as f64 * part).ceil() as usize).saturating_sub(1);
    sorted[at.min(last)]
}

/// The one in the middle; the larger, where there are two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_is_there() {
        let all: Vec<u64> = (1..=100).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|it| percentile(&all, it)), [1, 50, 99, 100]);
        assert_eq!(percentile(&[7], 0.99), 7);
        assert_eq!(percentile(&[], 0.5), 0);
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
