//! Medians and percentiles. Nothing is discarded.

use std::time::Duration;

/// The middle value (mean of the two middle ones), or `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => None,
        _ if n.is_multiple_of(2) => Some(f64::midpoint(sorted[n / 2 - 1], sorted[n / 2])),
        _ => Some(sorted[n / 2]),
    }
}

/// The smallest value that at least `percent` of the values do not exceed (nearest rank).
pub fn percentile(values: &[Duration], percent: usize) -> Option<Duration> {
    let mut sorted = values.to_vec();
    sorted.sort();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let values: Vec<Duration> = (1..=200).rev().map(Duration::from_micros).collect();
        assert_eq!(percentile(&values, 50), Some(Duration::from_micros(100)));
        assert_eq!(percentile(&values, 99), Some(Duration::from_micros(198)));
        assert_eq!(percentile(&values[..1], 99), Some(Duration::from_micros(200)));
        assert_eq!(percentile(&[], 50), None);
    }
}
