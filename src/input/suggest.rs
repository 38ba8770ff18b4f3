//! "Did you mean": the existing name that is most like one that does not exist.

/// The least Jaro similarity of a suggestion. Unrelated names of this length stay below it.
const ALIKE: f64 = 0.8;

/// What follows a name that does not exist in an error: ` (did you mean 'pcie.acs'?)`, or nothing where no name is like it.
pub fn did_you_mean<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let typed = typed.to_lowercase();
    let similarity = |name: &str| {
        // People leave out the family of a check.
        let last = name.rsplit('.').next().unwrap_or(name);
        strsim::jaro(&typed, name).max(strsim::jaro(&typed, last))
    };
    let best = names.into_iter().map(|name| (similarity(name), name));
    match best.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        Some((similarity, name)) if similarity >= ALIKE => format!(" (did you mean '{name}'?)"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_no_distant_one() {
        let names = [
            "pcie.acs",
            "pcie.ats",
            "gpu.bar1",
            "gpu",
            "rdma.mixed-stack",
        ];
        for (typed, name) in [
            ("pcie.asc", "pcie.acs"),
            ("PCIE.ACS", "pcie.acs"),
            ("bar1", "gpu.bar1"),
            ("bar2", "gpu.bar1"),
            ("gpus", "gpu"),
            ("mixed_stack", "rdma.mixed-stack"),
        ] {
            assert_eq!(
                did_you_mean(typed, names),
                format!(" (did you mean '{name}'?)"),
                "{typed}"
            );
        }
        for typed in ["", "zzz", "limits.memlock"] {
            assert_eq!(did_you_mean(typed, names), "", "{typed}");
        }
        assert_eq!(did_you_mean("gpu", []), "");
    }
}
