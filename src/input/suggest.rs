//! "Did you mean": suggests the most similar existing name.

/// Minimum Jaro similarity of a suggestion. Unrelated names are below it.
const MIN_SIMILARITY: f64 = 0.8;

/// Similarity of a name with one letter more, less or other, or with two letters swapped.
const ONE_MISTAKE: f64 = 0.85;

/// A shorter name is one mistake away from too many others.
const SHORTEST: usize = 3;

/// Suffix of an error about an unknown name: ` (did you mean 'pcie.acs'?)`, or empty if no name is similar.
pub fn did_you_mean<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let typed = typed.to_lowercase();
    let to = |name: &str| match strsim::osa_distance(&typed, name) {
        // Jaro takes two swapped letters of a short name for two others.
        1 if typed.len() >= SHORTEST => ONE_MISTAKE.max(strsim::jaro(&typed, name)),
        _ => strsim::jaro(&typed, name),
    };
    let similarity = |name: &str| {
        // Users omit the family of a check.
        let last = name.rsplit('.').next().unwrap_or(name);
        to(name).max(to(last))
    };
    let best = names.into_iter().map(|name| (similarity(name), name));
    match best.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        Some((similarity, name)) if similarity >= MIN_SIMILARITY => {
            format!(" (did you mean '{name}'?)")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_similar_names_only() {
        let names = ["pcie.acs", "pcie.ats", "gpu.bar1", "gpu", "rdma.mixed-stack"];
        for (typed, name) in [
            ("pcie.asc", "pcie.acs"),
            ("PCIE.ACS", "pcie.acs"),
            ("asc", "pcie.acs"),
            ("acz", "pcie.acs"),
            ("bar1", "gpu.bar1"),
            ("bar2", "gpu.bar1"),
            ("gpus", "gpu"),
            ("mixed_stack", "rdma.mixed-stack"),
        ] {
            assert_eq!(did_you_mean(typed, names), format!(" (did you mean '{name}'?)"), "{typed}");
        }
        for typed in ["", "zzz", "limits.memlock"] {
            assert_eq!(did_you_mean(typed, names), "", "{typed}");
        }
        assert_eq!(did_you_mean("gpu", []), "");
    }
}
