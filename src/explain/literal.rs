//! Extracts literals from patterns; every match contains one of them, so they preselect patterns for a line.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Limit of strings into which a part of a pattern is expanded.
const SPELT_OUT: usize = 24;

/// Literals of which every match contains at least one, if there are any.
pub(super) fn required(pattern: &str) -> Option<Vec<Vec<u8>>> {
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

fn better(a: Option<Vec<Vec<u8>>>, b: Option<Vec<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let rank = |set: &Vec<Vec<u8>>| (weight(set).min(12), std::cmp::Reverse(set.len()));
            Some(if rank(&b) > rank(&a) { b } else { a })
        }
        (a, b) => a.or(b),
    }
}

/// The best set for an expression.
fn best(hir: &Hir) -> Option<Vec<Vec<u8>>> {
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
fn concat(parts: &[Hir]) -> Option<Vec<Vec<u8>>> {
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
fn spelt_out(hir: &Hir) -> Option<Vec<Vec<u8>>> {
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
}
