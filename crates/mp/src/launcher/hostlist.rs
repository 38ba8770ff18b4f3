//! Slurm's lists of hosts, `node[01-04,7],gpu3`, name by name as `scontrol show hostnames` has them.

/// Most names of a list and numbers of a range: Slurm's limit.
const MAX_NAMES: usize = 65_536;
/// Longest text of a list, bytes; all names together may have eight times as many.
const MAX_BYTES: usize = 1 << 20;

/// An inclusive range of numbers, zero-padded to a width.
struct Range {
    from: u64,
    to: u64,
    width: usize,
}

/// Expands a list in order, with duplicates. The error says what is invalid.
///
/// With several brackets the last varies fastest, then the first, the second and so on, as in Slurm.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    if list.len() > MAX_BYTES {
        return Err(format!("a list of hosts has at most {MAX_BYTES} bytes"));
    }
    let mut names = Vec::new();
    let mut room = MAX_BYTES * 8;
    for item in items(list)? {
        expand_item(item, &mut names, &mut room)?;
    }
    Ok(names)
}

/// The parts between commas and white space that are not within brackets.
fn items(list: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut start, mut within) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if within => return Err("nested brackets".to_owned()),
            '[' => within = true,
            ']' if !within => return Err("unmatched ']'".to_owned()),
            ']' => within = false,
            ',' | ' ' | '\t' if !within => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            c if c.is_control() => {
                return Err("control character in a name".to_owned());
            }
            _ => {}
        }
    }
    if within {
        return Err("unmatched '['".to_owned());
    }
    items.push(&list[start..]);
    items.retain(|item| !item.is_empty());
    Ok(items)
}

/// Expands one item, within the limits.
fn expand_item(item: &str, names: &mut Vec<String>, room: &mut usize) -> Result<(), String> {
    let mut fixed = Vec::new();
    let mut numbers: Vec<Vec<String>> = Vec::new();
    let mut rest = item;
    let mut count: usize = 1;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((inner, after)) = after.split_once(']') else {
            return Err("unmatched '['".to_owned());
        };
        let values = parse_numbers(inner)?;
        count = count.saturating_mul(values.len());
        if names.len().saturating_add(count) > MAX_NAMES {
            return Err(format!("it has more than {MAX_NAMES} names"));
        }
        fixed.push(before);
        numbers.push(values);
        rest = after;
    }
    if numbers.is_empty() {
        if names.len() >= MAX_NAMES {
            return Err(format!("it has more than {MAX_NAMES} names"));
        }
        names.push(item.to_owned());
        return Ok(());
    }
    if !rest.is_empty() {
        return Err(format!("unexpected '{rest}' after the last bracket"));
    }
    // Index into each bracket; the last varies fastest, then the first.
    let last = numbers.len() - 1;
    let mut index = vec![0; numbers.len()];
    for _ in 0..count {
        let name: String = (fixed.iter().zip(&numbers).zip(&index))
            .flat_map(|((fixed, numbers), at)| [*fixed, numbers[*at].as_str()])
            .collect();
        *room = room.checked_sub(name.len()).ok_or("its names are too long")?;
        names.push(name);
        for place in std::iter::once(last).chain(0..last) {
            index[place] += 1;
            if index[place] < numbers[place].len() {
                break;
            }
            index[place] = 0;
        }
    }
    Ok(())
}

/// Expands the inside of a bracket.
fn parse_numbers(inner: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for part in inner.split(',') {
        let Range { from, to, width } =
            parse_range(part).ok_or_else(|| format!("invalid number or range: '{part}'"))?;
        let count = usize::try_from(to - from).map_or(usize::MAX, |count| count.saturating_add(1));
        if numbers.len().saturating_add(count) > MAX_NAMES {
            return Err(format!("range '{part}' has more than {MAX_NAMES} names"));
        }
        numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

fn parse_range(part: &str) -> Option<Range> {
    let number = |digits: &str| {
        let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        all.then(|| digits.parse::<u64>().ok()).flatten()
    };
    // The first number sets the width.
    let (from, to) = part.split_once('-').unwrap_or((part, part));
    let width = from.len();
    let (from, to) = (number(from)?, number(to)?);
    (from <= to && width <= 64).then_some(Range { from, to, width })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Output of `scontrol show hostnames` of Slurm 22.05.8.
    #[test]
    fn expands_like_scontrol() {
        let known: [(&str, &str); 22] = [
            ("node[01-04,7],gpu3", "node01 node02 node03 node04 node7 gpu3"),
            ("a[0-1]b[0-2]", "a0b0 a0b1 a0b2 a1b0 a1b1 a1b2"),
            ("x[1-2]y[1-2]z[1-2]", "x1y1z1 x1y1z2 x2y1z1 x2y1z2 x1y2z1 x1y2z2 x2y2z1 x2y2z2"),
            (
                "w[1-2]x[1-2]y[1-2]z[1-2]",
                "w1x1y1z1 w1x1y1z2 w2x1y1z1 w2x1y1z2 w1x2y1z1 w1x2y1z2 w2x2y1z1 w2x2y1z2 \
                 w1x1y2z1 w1x1y2z2 w2x1y2z1 w2x1y2z2 w1x2y2z1 w1x2y2z2 w2x2y2z1 w2x2y2z2",
            ),
            ("a[1-2]b[3-4],c", "a1b3 a1b4 a2b3 a2b4 c"),
            ("r[1-2][3-4]", "r13 r14 r23 r24"),
            ("n[8-010]", "n8 n9 n10"),
            ("n[08-10]", "n08 n09 n10"),
            ("n[9-11,0012]", "n9 n10 n11 n0012"),
            ("n[001]", "n001"),
            ("n[5,3,4]", "n5 n3 n4"),
            ("[1-3]", "1 2 3"),
            ("a1,,b2", "a1 b2"),
            (" a1 b2", "a1 b2"),
            ("n[1-2],n[1-2]", "n1 n2 n1 n2"),
            ("b,a", "b a"),
            ("a,b;c", "a b;c"),
            ("n[18446744073709551615]", "n18446744073709551615"),
            ("gnode[10,20,25,37]", "gnode10 gnode20 gnode25 gnode37"),
            ("a-1.example", "a-1.example"),
            ("", ""),
            (",", ""),
        ];
        for (list, names) in known {
            let expected: Vec<&str> = names.split_whitespace().collect();
            assert_eq!(expand(list).expect(list), expected, "{list}");
        }
    }

    /// Slurm rejects the first of these, and reads the others as unintended names.
    #[test]
    fn rejects_invalid_lists() {
        let invalid = [
            "gpu-a[01-02]-ib",
            "r1n[01-02]s[1-2]-x",
            "n[10-8]",
            "n[]",
            "n[1,]",
            "n[,1]",
            "n[1--3]",
            "n[a-b]",
            "n[1-2]]",
            "n[[1-2]]",
            "n[1-3:2]",
            "n[-3]",
            "n[1 ,2]",
            "n[0x1-3]",
            "n[1-70000]",
            "n[0-65536]",
        ];
        for list in invalid.into_iter().chain(["n[1-3", "n1-3]", "n[3-]", "n[+1-2]", "a\nb"]) {
            assert!(expand(list).is_err(), "{list}");
        }
    }

    #[test]
    fn name_limit() {
        assert_eq!(expand("n[0-65535]").expect("a list").len(), 65_536);
        for list in
            ["n[0-65535],m", "a[0-255]b[0-256]", "a[1-9999]b[1-9999]c[1-9999]d[1-9999]e[1-9999]"]
        {
            assert!(expand(list).is_err(), "{list}");
        }
        let long = format!("{}[0-65535]", "n".repeat(1000));
        assert!(expand(&long).is_err(), "names of 64 MiB together");
        assert!(expand(&"n,".repeat(MAX_BYTES)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_safe(text in "\\PC{0,64}", close in "[a-z0-9,\\[\\]-]{0,40}") {
            let _ = expand(&text);
            if let Ok(names) = expand(&close) {
                prop_assert!(names.len() <= MAX_NAMES);
                prop_assert!(names.iter().all(|name| !name.contains(['[', ']', ','])));
            }
        }

        /// Generated ranges, compared with names from a loop.
        #[test]
        fn expands_generated_ranges(
            groups in proptest::collection::vec(("[a-z]{1,5}-?", 0u64..200, 0u64..20, 1usize..5), 1..6),
        ) {
            let mut list = Vec::new();
            let mut names = Vec::new();
            for (prefix, from, more, width) in &groups {
                list.push(format!("{prefix}[{from:0width$}-{}]", from + more));
                // A number that is longer than the width shows all of itself.
                let width = (*width).max(from.to_string().len());
                names.extend((*from..=from + more).map(|number| format!("{prefix}{number:0width$}")));
            }
            prop_assert_eq!(expand(&list.join(",")), Ok(names));
        }
    }
}
