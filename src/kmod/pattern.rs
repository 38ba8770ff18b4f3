//! Shell patterns like fnmatch(3) without flags (`*`, `?`, `[…]`), for aliases and install lines.

pub(super) fn matches(pattern: &str, name: &str) -> bool {
    // PCI aliases have fewer than 100 characters.
    const LONGEST: usize = 1024;
    if pattern.len() > LONGEST || name.len() > LONGEST {
        return pattern == name;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut to) = (0, 0);
    // The last star's position, and how much it matches.
    let mut star: Option<(usize, usize)> = None;
    while to < name.len() {
        let step = match pattern.get(at) {
            Some('*') => {
                star = Some((at, to));
                at += 1;
                continue;
            }
            Some('?') => Some(at + 1),
            Some('[') => match set(&pattern, at, name[to]) {
                Some((true, end)) => Some(end),
                Some((false, _)) => None,
                None => (name[to] == '[').then_some(at + 1),
            },
            Some('\\') if at + 1 < pattern.len() => (pattern[at + 1] == name[to]).then_some(at + 2),
            Some(c) => (*c == name[to]).then_some(at + 1),
            None => None,
        };
        match (step, star) {
            (Some(next), _) => {
                at = next;
                to += 1;
            }
            (None, Some((before, reach))) => {
                star = Some((before, reach + 1));
                at = before + 1;
                to = reach + 1;
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// True if a character is in the set that begins at `at`, and the set's end; `None` if it is unclosed.
fn set(pattern: &[char], at: usize, c: char) -> Option<(bool, usize)> {
    let mut next = at + 1;
    let negated = matches!(pattern.get(next), Some('!' | '^'));
    next += usize::from(negated);
    let first = next;
    let mut found = false;
    loop {
        match *pattern.get(next)? {
            ']' if next > first => return Some((found != negated, next + 1)),
            low => match (pattern.get(next + 1), pattern.get(next + 2)) {
                (Some('-'), Some(high)) if *high != ']' => {
                    found |= (low..=*high).contains(&c);
                    next += 3;
                }
                _ => {
                    found |= low == c;
                    next += 1;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_fnmatch_does() {
        for (pattern, name, does) in [
            ("nvidia", "nvidia", true),
            ("nvidia*", "nvidia_uvm", true),
            ("nvidia", "nvidia_uvm", false),
            (
                "pci:v000010DEd*sv*sd*bc03sc02i00*",
                "pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00",
                true,
            ),
            (
                "pci:v000010DEd*sv*sd*bc03sc00i00*",
                "pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00",
                false,
            ),
            ("a?c", "abc", true),
            ("a[0-9b]c", "abc", true),
            ("a[!b]c", "abc", false),
            ("a[]]c", "a]c", true),
            ("a[bc", "a[bc", true),
            ("*", "", true),
            ("**a", "bba", true),
            ("*ab", "aab", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), does, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        assert!(!matches(&"*a".repeat(500), &"a".repeat(499)));
    }
}
