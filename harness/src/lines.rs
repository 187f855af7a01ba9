//! Lines of runs, with their fields and exponents, for figures, tables and verdicts alike.
//!
//! A field is a path into a run's line of `measurements.jsonl`, or of its parameters: `rms_error`, `parameters.rounds` or `rounds` alone,
//! `gap_mean.-1` (the last entry of a list). Each line has the fields `method`, `problem`, `draw`, `repeat`, `axis`, `axis_name`, `target`
//! and `chosen` besides, and those that its measure adds. Fields and numbers are joined from left to right by `a / b`, `a * b`, `a - b` and
//! `a ^ b`.

use serde_json::Value;

use crate::estimates::{self, Estimated, fit};
use crate::grouping::{by_key, distinct};

/// The value of a field.
pub(crate) fn field<'v>(run: &'v Value, path: &str) -> Option<&'v Value> {
    let within = |value: &'v Value, name: &str| match value {
        Value::Array(values) => {
            let place: isize = name.parse().ok()?;
            values.get(if place < 0 { values.len().checked_add_signed(place)? } else { place.cast_unsigned() })
        }
        value => value.get(name),
    };
    let of = |run| path.split('.').try_fold(run, within);
    of(run).or_else(|| of(run.get("parameters")?))
}

/// Fields and numbers joined by signs, as a number; NaN without one.
pub(crate) fn number(run: &Value, of: &str) -> f64 {
    let one = |part: &str| part.parse().ok().or_else(|| field(run, part)?.as_f64()).unwrap_or(f64::NAN);
    let mut words = of.split(' ');
    let mut value = words.next().map_or(f64::NAN, one);
    while let (Some(sign), Some(part)) = (words.next(), words.next()) {
        value = match sign {
            "/" => value / one(part),
            "*" => value * one(part),
            "-" => value - one(part),
            "^" => value.powf(one(part)),
            _ => f64::NAN,
        };
    }
    value
}

/// The exponent of `of` in the first of the fields `along`, beside the others that vary, with its interval and the number of its places: by
/// the jackknife over draws, or over another field the mean of those of each value, in both cases with the wider interval of chance and misfit,
/// that of the `middle` of each place. Places with fewer runs than the others are unfinished and left out.
pub(crate) fn exponent(
    runs: &[&Value],
    of: &str,
    along: &[String],
    over: &str,
    middle: fn(&[f64]) -> f64,
) -> Option<(Estimated, usize)> {
    let is_jackknife = over == "draw";
    let value = |run: &Value| Some(number(run, of)).filter(|value| *value > 0.0 && value.is_finite());
    let place = |run: &Value| along.iter().map(|path| number(run, path)).collect::<Vec<f64>>();
    let mut places = by_key(runs.iter().filter_map(|run| Some((place(run), (field(run, over), value(run)?)))));
    let most = places.iter().map(|(_, own)| own.len()).max()?;
    places.retain(|(_, own)| own.len() == most);
    let varies = |index: &usize| *index == 0 || places.iter().any(|(x, _)| x[*index] != places[0].0[*index]);
    let variables: Vec<usize> = (0..along.len()).filter(varies).collect();
    let rows = |is_kept: &dyn Fn(Option<&Value>) -> bool| -> Vec<(Vec<f64>, f64)> {
        let row = |(x, own): &(Vec<f64>, Vec<(Option<&Value>, f64)>)| {
            let kept = own.iter().filter(|(of, _)| is_kept(*of)).map(|(_, y)| *y);
            (variables.iter().map(|index| x[*index]).collect(), middle(&kept.collect::<Vec<_>>()))
        };
        places.iter().map(row).collect()
    };
    let mut parts = distinct(places[0].1.iter().map(|(part, _)| *part));
    if parts.len() < 2 {
        parts.clear();
    }
    let of_part = |part| Some(fit(&rows(&|of| (of == part) != is_jackknife))?.first()?.value);
    let parts: Vec<f64> = parts.into_iter().filter_map(of_part).collect();
    Some((estimates::exponent(&rows(&|_| true), &parts, is_jackknife)?, places.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::statistics::mean;

    #[test]
    fn a_field_is_a_path_into_a_line_or_its_parameters() {
        let line = json!({ "rounds": 3, "gap": [1.0, 0.5], "parameters": { "rounds": 9, "epsilon": 2.0 } });
        for (of, expected) in [
            ("rounds", 3.0),
            ("parameters.rounds", 9.0),
            ("epsilon", 2.0),
            ("gap.-1", 0.5),
            ("gap.0 / epsilon ^ 2", 0.25),
            ("rounds * 2 - epsilon", 4.0),
        ] {
            assert_eq!(number(&line, of), expected, "{of}");
        }
        for of in ["gap.2", "gap.-3", "gap", "delta", "rounds ? 2"] {
            assert!(number(&line, of).is_nan(), "{of}");
        }
    }

    /// Counts 3·√d/ε² that three seeds have with other constants, a place that one seed has not reached, and one without the count.
    #[test]
    fn an_exponent_is_that_of_the_first_field_over_places_that_all_seeds_reached() {
        let run = |d: u32, epsilon: f64, seed: u32| {
            let count = 3.0 * f64::from(d).sqrt() / (epsilon * epsilon) * (1.0 + 0.1 * f64::from(seed));
            json!({ "d": d, "parameters": { "epsilon": epsilon }, "repeat": seed, "count": count })
        };
        let places = [16, 64, 256].into_iter().flat_map(|d| [0.1, 0.05, 0.02].map(|epsilon| (d, epsilon)));
        let mut runs: Vec<Value> =
            places.flat_map(|(d, epsilon)| [0, 1, 2].map(|seed| run(d, epsilon, seed))).collect();
        runs.extend([run(1_024, 9.0, 0), json!({ "d": 7, "parameters": { "epsilon": 0.3 }, "repeat": 0 })]);
        let runs: Vec<&Value> = runs.iter().collect();
        for (along, expected) in [(["d", "1 / epsilon"], 0.5), (["1 / epsilon", "d"], 2.0)] {
            let (found, places) = exponent(&runs, "count", &along.map(str::to_owned), "repeat", mean).unwrap();
            assert!((found.value - expected).abs() < 1e-9 && found.half(0.95) < 1e-6, "{along:?}: {found}");
            assert_eq!((places, found.count), (9, 3));
        }
        assert!(exponent(&runs, "none", &["d".to_owned()], "repeat", mean).is_none());
    }
}
