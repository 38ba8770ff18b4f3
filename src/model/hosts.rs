//! Many names of nodes in few words: `n[1-8,10],gpu3`, as Slurm writes lists of hosts; and their order.

use std::collections::{BTreeMap, BTreeSet};

/// A host list of these names. Names that end in a number of the same width share a bracket.
pub fn fold<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut numbered: Vec<(&str, usize, u64)> = Vec::new();
    let mut padded: BTreeSet<(&str, usize)> = BTreeSet::new();
    let mut whole: Vec<&str> = Vec::new();
    for name in names {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[stem.len()..];
        match digits.parse() {
            Ok(number) if is_plain(stem) => numbered.push((stem, digits.len(), number)),
            _ => whole.push(name),
        }
        if digits.starts_with('0') {
            padded.insert((stem, digits.len()));
        }
    }
    let mut stems: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    for (stem, digits, number) in numbered {
        // Zeros in front of one number make the width of all significant.
        let width = if padded.contains(&(stem, digits)) { digits } else { 0 };
        stems.entry((stem, width)).or_default().push(number);
    }
    let ranges = stems.into_iter().map(|((stem, width), numbers)| bracket(stem, width, numbers));
    whole.sort_unstable();
    whole.dedup();
    let names = ranges.chain(whole.into_iter().map(str::to_owned));
    names.collect::<Vec<_>>().join(",")
}

/// Text that a host list can hold as it is.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
}

fn bracket(stem: &str, width: usize, mut numbers: Vec<u64>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    if let [(first, last)] = ranges[..]
        && first == last
    {
        return format!("{stem}{first:0width$}");
    }
    let ranges = ranges.into_iter().map(|(first, last)| {
        if first == last {
            format!("{first:0width$}")
        } else {
            format!("{first:0width$}-{last:0width$}")
        }
    });
    format!("{stem}[{}]", ranges.collect::<Vec<_>>().join(","))
}

/// Names in the order of their numbers: n2 before n10.
pub fn natural(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_as_slurm_does() {
        // scontrol show hostlist n1,n2,n3,n10,n4,login
        assert_eq!(fold(["n1", "n2", "n3", "n10", "n4", "login"]), "n[1-4,10],login");
        assert_eq!(fold(["n01", "n02", "n10"]), "n[01-02,10]");
        assert_eq!(fold(["n7"]), "n7");
        assert_eq!(fold(["a b1", "x", "x"]), "a b1,x");
        assert_eq!(fold([]), "");
        assert_eq!(
            fold(["n18446744073709551615", "n99999999999999999999"]),
            "n18446744073709551615,n99999999999999999999"
        );
    }

    #[test]
    fn orders_by_number() {
        let mut names = ["n10", "n2", "m3"];
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        assert_eq!(names, ["m3", "n2", "n10"]);
    }
}
