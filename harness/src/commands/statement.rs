//! A privacy statement as names and values.

use rounds_algorithms::privacy::selection::Bound;
use rounds_algorithms::privacy::{Adjacency, Arithmetic, Claim, NoiseSource, PrivacyStatement};

use crate::format::{rounded, scientific, three_digits};

/// ε with at least one digit that is not 0.
fn shown(epsilon: f64) -> String {
    if epsilon < 1e-3 {
        format!("{epsilon:.3e}")
    } else {
        // Never less than what is proven.
        format!("{:.6}", (epsilon * 1e6 * (1.0 - 1e-13)).ceil() / 1e6)
    }
}

/// Noise, sensitivity and their source in a line; `None` of compositions whose parts differ.
fn noise(privacy: &PrivacyStatement) -> Option<String> {
    let multiplier = privacy.noise_multiplier.map(|multiplier| {
        // Three digits, never more than was added.
        let unit = 10_f64.powi(multiplier.log10().floor() as i32 - 2);
        format!("noise multiplier {}", three_digits((multiplier / unit * (1.0 + 1e-13)).floor() * unit))
    });
    let clip_norm = privacy.clip_norm.map(|bound| {
        let norm = privacy.norm.as_deref().map(|norm| format!(" ({norm})"));
        format!("clip norm {}{}", three_digits(bound), norm.unwrap_or_default())
    });
    let source = privacy.noise_source.map(|source| match source {
        NoiseSource::Chacha20 => "from a secret ChaCha20 key".to_owned(),
        NoiseSource::Xoshiro => "from a seed".to_owned(),
    });
    let arithmetic = privacy.arithmetic.map(|arithmetic| match arithmetic {
        Arithmetic::Exact => "exact arithmetic".to_owned(),
        Arithmetic::Exact16 => "exact arithmetic of 16-bit coefficients".to_owned(),
        Arithmetic::Idealised => "idealised in floating point".to_owned(),
    });
    let parts: Vec<String> = [multiplier, clip_norm, source, arithmetic].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The accountant of a run, or the bound of a selection.
fn accountant(privacy: &PrivacyStatement) -> Option<String> {
    let of_selection = privacy.selection.as_ref().map(|selection| {
        let bound = match selection.bound {
            Bound::Renyi => "Rényi divergences",
            Bound::Profile => "profile",
            Bound::TradeOff => "trade-off",
        };
        format!("that of a selection by {bound}")
    });
    of_selection.or(privacy.accountant.map(|accountant| accountant.to_string()))
}

/// The privacy statement as names and values.
pub(super) fn privacy_rows(privacy: &PrivacyStatement) -> Vec<(&'static str, String)> {
    let Some((epsilon, delta)) = privacy.epsilon.zip(privacy.delta) else {
        let reason = privacy.reason.as_deref().unwrap_or("nothing is claimed");
        return vec![("privacy", format!("none: {reason}"))];
    };
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    let claim = match privacy.claim {
        Claim::Release => "release",
        Claim::Simulation => "simulation (reproducible noise: for measurements, not for release)",
        Claim::None => "none",
    };
    let domain = privacy.domain.as_ref();
    let domain = domain.map(|domain| format!("{}, sha256 {}…", domain.source, &domain.sha256[..16]));
    let mut rows = vec![
        ("privacy", format!("ε = {} at δ = {} per {}", shown(epsilon), scientific(delta), privacy.unit)),
        ("claim", claim.to_owned()),
        ("adjacency", known(privacy.adjacency.map(|adjacency| adjacency.to_string()))),
        ("accountant", known(accountant(privacy))),
        ("mechanism", known(privacy.mechanism.as_deref().map(rounded))),
        ("noise", known(noise(privacy))),
        ("domain", known(domain)),
    ];
    rows.extend(privacy.selection.iter().flat_map(|selection| {
        let short = |digest: &str| digest.chars().take(16).collect::<String>();
        let trial = format!(
            "training at ε = {} and δ = {}, {} expected, from the grid sha256 {}…",
            shown(selection.trial_epsilon),
            scientific(selection.trial_delta),
            selection.expected_trials,
            short(&selection.grid_sha256)
        );
        let rows = selection.score_sha256.as_ref().map(|sha256| format!(", sha256 {}…", short(sha256)));
        [("a trial", trial), ("score", selection.score.clone() + &rows.unwrap_or_default())]
    }));
    rows.extend(privacy.bounds_epsilon.map(|epsilon| {
        let text = format!("private ones of the columns of numbers, ε = {} of the above", shown(epsilon));
        ("bounds", text)
    }));
    let replaced = privacy.replace_one.filter(|_| privacy.adjacency != Some(Adjacency::ReplaceOne));
    rows.extend(replaced.map(|replaced| {
        let guarantee = if replaced.delta < 1.0 {
            format!("ε = {} at δ = {}", shown(replaced.epsilon), scientific(replaced.delta))
        } else {
            // Whatever a mechanism does, δ = 1 holds.
            "no guarantee".to_owned()
        };
        ("replacing one", format!("{guarantee}, for another {} in place of one", privacy.unit))
    }));
    rows.extend(privacy.public.iter().map(|fact| ("public", fact.clone())));
    rows.extend(privacy.notes.iter().map(|note| ("note", note.clone())));
    rows
}
