//! Extracts literals from patterns; every match contains one of them, so they preselect patterns for a line. Those of the shipped table are
//! generated: to extract them takes longer than to read a short text.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Limit of strings into which a part of a pattern is expanded.
const SPELT_OUT: usize = 24;

/// The literals of the shipped table: a hash of its patterns, then a line of literals for each pattern.
const SHIPPED: &str = include_str!("literals.txt");

/// Literals of a pattern.
pub type Literals = Vec<Vec<u8>>;

/// The literals of each pattern: the generated ones if they are of these patterns.
pub fn of_all(patterns: &[&str]) -> Vec<Option<Literals>> {
    generated(patterns)
        .unwrap_or_else(|| patterns.iter().map(|pattern| required(pattern)).collect())
}

fn generated(patterns: &[&str]) -> Option<Vec<Option<Literals>>> {
    let (hash, lines) = SHIPPED.split_once('\n')?;
    if hash != hash_of(patterns) {
        return None;
    }
    let literals = |line: &str| line.split('\t').map(|text| text.as_bytes().to_vec()).collect();
    let all: Vec<_> = lines.lines().map(|line| Some(literals(line))).collect();
    (all.len() == patterns.len()).then_some(all)
}

/// What `literals.txt` has for these patterns; `None` if a pattern has no literals, or some that a line cannot hold.
pub fn to_generate(patterns: &[&str]) -> Option<String> {
    let mut file = hash_of(patterns) + "\n";
    for pattern in patterns {
        let literals: Option<Vec<String>> = required(pattern)?
            .into_iter()
            .map(|literal| String::from_utf8(literal).ok())
            .map(|literal| literal.filter(|text| !text.contains(char::is_control)))
            .collect();
        file += &literals?.join("\t");
        file.push('\n');
    }
    Some(file)
}

/// FNV-1a.
fn hash_of(patterns: &[&str]) -> String {
    let bytes = patterns.iter().flat_map(|pattern| pattern.bytes().chain(*b"\n"));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Literals of which every match contains at least one, if there are any.
fn required(pattern: &str) -> Option<Literals> {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).ok()?;
    best(&parsed).filter(|found| weight(found) > 0)
}

/// Words that most lines of some log have: a search for another part of the pattern finds fewer lines.
const COMMON: [&[u8]; 6] = [b"p2p", b"gdr", b"rdma", b"cuda", b"nccl", b"gpu"];

/// The quality of a set: the length of its shortest literal; small sets are slightly better.
fn weight(literals: &[Vec<u8>]) -> usize {
    let of_one = |literal: &Vec<u8>| {
        if COMMON.contains(&literal.as_slice()) { 1 } else { literal.len() }
    };
    literals.iter().map(of_one).min().unwrap_or(0)
}

fn better(a: Option<Literals>, b: Option<Literals>) -> Option<Literals> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let rank = |set: &Vec<Vec<u8>>| (weight(set).min(12), std::cmp::Reverse(set.len()));
            Some(if rank(&b) > rank(&a) { b } else { a })
        }
        (a, b) => a.or(b),
    }
}

/// The best set for an expression.
fn best(hir: &Hir) -> Option<Literals> {
    if let Some(all) = spelt_out(hir) {
        return Some(all).filter(|all| weight(all) > 0);
    }
    match hir.kind() {
        HirKind::Capture(capture) => best(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => best(&repetition.sub),
        HirKind::Alternation(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(best(part)?);
            }
            Some(all)
        }
        HirKind::Concat(parts) => concat(parts),
        _ => None,
    }
}

/// For a sequence: its longest run that can be expanded, or the best set of a part.
fn concat(parts: &[Hir]) -> Option<Literals> {
    let mut found = None;
    let mut run: Vec<Vec<u8>> = vec![Vec::new()];
    for part in parts {
        let next = spelt_out(part).filter(|all| all.len() * run.len() <= SPELT_OUT);
        match next {
            Some(all) => run = product(&run, &all),
            None => {
                let whole = std::mem::replace(&mut run, vec![Vec::new()]);
                found = better(found, Some(whole).filter(|run| weight(run) > 0));
                match spelt_out(part) {
                    Some(all) => run = all,
                    None => found = better(found, best(part)),
                }
            }
        }
    }
    better(found, Some(run).filter(|run| weight(run) > 0))
}

/// All strings that a part matches, if they are few.
fn spelt_out(hir: &Hir) -> Option<Literals> {
    let all = match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![Vec::new()],
        HirKind::Literal(literal) => vec![literal.0.to_vec()],
        HirKind::Class(Class::Bytes(class)) => {
            let bytes: Vec<u8> = class
                .iter()
                .flat_map(|range| range.start()..=range.end())
                .take(SPELT_OUT + 1)
                .collect();
            bytes.into_iter().map(|byte| vec![byte]).collect()
        }
        HirKind::Capture(capture) => spelt_out(&capture.sub)?,
        HirKind::Repetition(repetition) if repetition.min == 0 && repetition.max == Some(1) => {
            let mut all = spelt_out(&repetition.sub)?;
            all.push(Vec::new());
            all
        }
        HirKind::Alternation(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(spelt_out(part)?);
            }
            all
        }
        HirKind::Concat(parts) => {
            let mut all = vec![Vec::new()];
            for part in parts {
                let next = spelt_out(part)?;
                if all.len() * next.len() > SPELT_OUT {
                    return None;
                }
                all = product(&all, &next);
            }
            all
        }
        _ => return None,
    };
    (all.len() <= SPELT_OUT).then_some(all)
}

fn product(a: &[Vec<u8>], b: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    pairs.map(|(a, b)| [a.as_slice(), b.as_slice()].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(pattern: &str) -> Option<Vec<String>> {
        let mut all: Vec<String> = required(pattern)?
            .into_iter()
            .map(|literal| String::from_utf8(literal).expect("text"))
            .collect();
        all.sort();
        Some(all)
    }

    #[test]
    fn every_match_contains_a_literal() {
        let some =
            |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(literals("nvidia[-_]peermem"), some(&["nvidia-peermem", "nvidia_peermem"]));
        assert_eq!(literals("could not insert .{0,4}x"), some(&["could not insert "]));
        assert_eq!(
            literals(r"(cat|dogs?)\b.{0,9}(fail|error) here"),
            some(&["error here", "fail here"])
        );
        assert_eq!(literals(r"\d+ ?(mb|gb)"), some(&[" gb", " mb", "gb", "mb"]));
        assert_eq!(literals(r"(a.*b|c.*d)"), some(&["a", "c"]));
        assert_eq!(literals(r"\w+[^x]*"), None);
        assert_eq!(literals(r"(abc)?"), None);
    }

    #[test]
    fn other_patterns_have_literals_of_their_own() {
        let patterns = ["bad .*", "lost (here|there)"];
        let own =
            |words: &[&str]| Some(words.iter().map(|word| word.as_bytes().to_vec()).collect());
        assert_eq!(of_all(&patterns), [own(&["bad "]), own(&["lost here", "lost there"])]);
        let file = to_generate(&patterns).expect("literals");
        let lines: Vec<&str> = file.lines().collect();
        assert_eq!(lines[1..], ["bad ", "lost here\tlost there"]);
        assert_eq!(to_generate(&[r"\w+"]), None);
    }
}
