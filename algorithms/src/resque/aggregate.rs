//! Aggregate: from points most of which are near an unknown one, a point near it with certainty [002 Lemma 11].

/// Index of a point of `points` with at least 51 % of them within 2Δ/3. If at least 51 % lie within Δ/3 of an unknown y, the
/// chosen one lies within Δ of y: two majorities of 51 % share a point. Where there is no such point, the one with the
/// smallest 51 % quantile of distances, without the lemma's guarantee. O(dk²).
///
/// # Panics
/// Without points.
pub(super) fn aggregate(points: &[Vec<f32>], spread: f64) -> usize {
    let needed = (0.51 * points.len() as f64).ceil() as usize;
    let mut best = None;
    for (index, point) in points.iter().enumerate() {
        let mut distances: Vec<f64> = points
            .iter()
            .map(|other| point.iter().zip(other).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt())
            .collect();
        distances.sort_by(f64::total_cmp);
        let quantile = distances[needed.max(1) - 1];
        if quantile <= 2.0 * spread / 3.0 {
            return index;
        }
        if best.is_none_or(|(least, _)| quantile < least) {
            best = Some((quantile, index));
        }
    }
    best.expect("at least one point").1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_nine_percent_of_outliers_do_no_harm() {
        let spread = 0.3;
        for conspiracy in [0.0f32, 5.0] {
            let mut points = Vec::new();
            for index in 0..100 {
                let angle = index as f32;
                let near = vec![1.0 + 0.099 * angle.sin(), 2.0 + 0.01 * angle.cos()];
                // Outliers come first: scattered, or all at one place.
                let far = vec![10.0 + (5.0 - conspiracy) * angle, -7.0];
                points.push(if index < 49 { far } else { near });
            }
            let point = &points[aggregate(&points, spread)];
            let distance = ((point[0] - 1.0).powi(2) + (point[1] - 2.0).powi(2)).sqrt();
            assert!(f64::from(distance) <= spread, "{distance}");
        }
    }

    #[test]
    fn without_a_majority_a_middle_point_is_chosen() {
        let points: Vec<_> = (0..10).map(|i| vec![f32::from(i as u8)]).collect();
        let chosen = aggregate(&points, 0.5);
        assert!((2..=7).contains(&chosen), "{chosen}");
        assert_eq!(aggregate(&[vec![1.0]], 0.1), 0);
    }
}
