//! What the findings come to for one profile: where it is ready, where not, and what stands in the way.

use std::collections::BTreeSet;

use super::{Ctx, is_undetermined, pcie};
use crate::model::{Bdf, Finding, Kind, Obstacle, Outcome, Readiness, ReadyState};
use crate::profile::{Expectations, Profile, Units};

/// A GPU, or a GPU with its partner, and every function on the way.
struct Unit {
    name: String,
    rows: Vec<usize>,
    functions: BTreeSet<Bdf>,
    /// The ports on the way whose access control its traffic goes by.
    governing: BTreeSet<Bdf>,
}

/// How a unit stands; the greater of two counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stand {
    Ready,
    /// Something that is required is not known of it.
    Open,
    Blocked,
}

/// How a profile stands. The findings are those under this profile alone.
pub fn readiness(ctx: &Ctx<'_>, profile: &Profile, findings: &[Finding]) -> Readiness {
    let units = units(ctx, profile.units);
    let expectations = Expectations::of(std::slice::from_ref(profile));
    let mut blocked: Vec<Obstacle> = Vec::new();
    let mut open: Vec<&Finding> = Vec::new();
    let mut stands = vec![Stand::Ready; units.len()];
    let mut everywhere = false;
    for finding in findings {
        let undetermined = is_undetermined(finding, &expectations);
        if finding.outcome != Outcome::Fail && !undetermined {
            continue;
        }
        let named = named(ctx, &finding.subject);
        let touched: Vec<usize> = units
            .iter()
            .enumerate()
            .filter(|(_, unit)| named.is_empty() || unit.is_touched(finding, &named))
            .map(|(at, _)| at)
            .collect();
        let stand = match undetermined {
            true => Stand::Open,
            false => Stand::Blocked,
        };
        for at in &touched {
            stands[*at] = stand.max(stands[*at]);
        }
        if undetermined {
            if named.is_empty() || !touched.is_empty() {
                open.push(finding);
            }
            continue;
        }
        everywhere |= named.is_empty();
        let places = match named.is_empty() {
            true => vec!["machine".to_owned()],
            false => touched
                .iter()
                .filter_map(|at| Some(units.get(*at)?.name.clone()))
                .collect(),
        };
        blocked.extend(places.into_iter().map(|place| Obstacle {
            place,
            check: finding.id.clone(),
            message: finding.message.clone(),
        }));
    }
    let those = |stand: Stand| -> Vec<String> {
        let standing = units.iter().zip(&stands).filter(|(_, stands)| **stands == stand);
        standing.map(|(unit, _)| unit.name.clone()).collect()
    };
    let (ready, unknown) = (those(Stand::Ready), those(Stand::Open));
    let state = match (blocked.is_empty(), open.is_empty()) {
        (false, _) if everywhere => ReadyState::NotReady,
        (true, true) if units.is_empty() => ReadyState::NotReady,
        (true, true) => ReadyState::Ready,
        _ if !ready.is_empty() => ReadyState::Partly,
        (false, _) if unknown.is_empty() => ReadyState::NotReady,
        _ => ReadyState::Undetermined,
    };
    let warnings = findings
        .iter()
        .filter(|finding| finding.outcome == Outcome::Warn)
        .count();
    let places = Places {
        ready: &ready,
        unknown: &unknown,
    };
    let text = sentence(
        (profile.title(), profile.units),
        state,
        places,
        &blocked,
        &open,
        warnings,
    );
    Readiness {
        profile: profile.name.clone(),
        title: profile.title().to_owned(),
        state,
        ready,
        blocked,
        text,
    }
}

/// Where it is ready, and where that is not known.
struct Places<'a> {
    ready: &'a [String],
    unknown: &'a [String],
}

impl Unit {
    /// Whether one of these is part of it, or on its way. A pair touches those alone that have both of its ends.
    fn is_touched(&self, finding: &Finding, named: &[BTreeSet<Name>]) -> bool {
        // A port redirects those alone whose traffic it decides on: not what goes up through it anyhow.
        let functions = match finding.id.as_str() {
            "pcie.acs" => &self.governing,
            _ => &self.functions,
        };
        let is_mine = |name: &Name| match name {
            Name::Row(row) => self.rows.contains(row),
            Name::Function(bdf) => functions.contains(bdf),
        };
        named.iter().any(|names| names.iter().all(is_mine))
    }
}

/// What a finding's subject names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Row(usize),
    Function(Bdf),
}

/// The devices that a subject names: `GPU0 (0000:17:00.0), GPU1 (0000:2a:00.0)`, `GPU0–GPU1`, `mlx5_0`, `mlx5_0/1`, a port's
/// address. None in `machine`, `driver` or `this process`.
fn named(ctx: &Ctx<'_>, subject: &str) -> Vec<BTreeSet<Name>> {
    let names = subject.split(',').map(|part| names(ctx, part));
    names.filter(|names| !names.is_empty()).collect()
}

/// The devices that a part of a subject names: one, or the two of a pair.
fn names(ctx: &Ctx<'_>, part: &str) -> BTreeSet<Name> {
    part.split([' ', '(', ')', '–', '/'])
        .map(|word| word.trim_end_matches([':', ';']))
        .filter(|word| !word.is_empty())
        .filter_map(|word| match ctx.topology.find(word) {
            Some(row) => Some(Name::Row(row)),
            None => word.parse().ok().map(Name::Function),
        })
        .collect()
}

fn units(ctx: &Ctx<'_>, kind: Units) -> Vec<Unit> {
    let gpus: Vec<usize> = ctx.topology.rows_of(Kind::Gpu).map(|(at, _)| at).collect();
    let rows: Vec<Vec<usize>> = match kind {
        Units::Gpu => gpus.iter().map(|gpu| vec![*gpu]).collect(),
        Units::GpuNic => ctx
            .topology
            .matches
            .iter()
            .filter(|found| gpus.contains(&found.row))
            .filter_map(|found| Some(vec![found.row, found.pick?]))
            .collect(),
        Units::GpuGpu => gpus
            .iter()
            .flat_map(|a| gpus.iter().filter(move |b| a < b).map(|b| vec![*a, *b]))
            .collect(),
    };
    rows.into_iter().map(|rows| unit(ctx, rows)).collect()
}

fn unit(ctx: &Ctx<'_>, rows: Vec<usize>) -> Unit {
    let row = |at: &usize| ctx.topology.rows.get(*at);
    let name = rows.iter().filter_map(row).map(|row| row.name.as_str());
    let mut functions: BTreeSet<Bdf> = rows.iter().filter_map(row).filter_map(|row| row.bdf).collect();
    let mut governing = BTreeSet::new();
    if let [a, b] = rows.as_slice()
        && let Ok(path) = ctx.topology.route(*a, *b)
    {
        functions.extend(path.hops.iter().map(|hop| hop.bdf));
        if !pcie::is_joined(ctx, *a, *b) {
            governing.extend(pcie::governing(ctx, &path).map(|redirect| redirect.port));
        }
    }
    Unit {
        name: name.collect::<Vec<_>>().join("–"),
        functions,
        governing,
        rows,
    }
}

fn sentence(
    (title, kind): (&str, Units),
    state: ReadyState,
    places: Places<'_>,
    blocked: &[Obstacle],
    open: &[&Finding],
    warnings: usize,
) -> String {
    let on = |places: &[String]| match places {
        [] => String::new(),
        places => format!(" on {}", places.join(", ")),
    };
    let ready = format!("{title}: ready{}", on(places.ready));
    let not = || {
        let mut places: Vec<String> = Vec::new();
        for obstacle in blocked {
            if !places.contains(&obstacle.place) {
                places.push(obstacle.place.clone());
            }
        }
        format!("not{}: {}", on(&places), reasons(blocked))
    };
    let cannot_tell = || format!("cannot tell{}: {}", on(places.unknown), unknown(open));
    match (state, blocked.is_empty(), open.is_empty()) {
        (ReadyState::Ready, ..) => {
            let but = match warnings {
                0 => String::new(),
                1 => ", with 1 warning".to_owned(),
                many => format!(", with {many} warnings"),
            };
            format!("{ready}{but}.")
        }
        (ReadyState::NotReady, true, _) => format!("{title}: not ready: {}", nothing(kind)),
        (ReadyState::NotReady, false, _) => format!("{title}: not ready: {}", reasons(blocked)),
        (ReadyState::Partly, _, true) => format!("{ready}, {}", not()),
        (ReadyState::Partly, true, _) => format!("{ready}; {}.", cannot_tell()),
        (ReadyState::Partly, false, false) => format!("{ready}; {}; {}", cannot_tell(), not()),
        (ReadyState::Undetermined, true, _) => format!("{title}: cannot tell: {}.", unknown(open)),
        (ReadyState::Undetermined, false, _) => format!("{title}: {}; {}", cannot_tell(), not()),
    }
}

/// The checks that could not be determined, and what they need where that is one thing.
fn unknown(open: &[&Finding]) -> String {
    let mut ids: Vec<&str> = open.iter().map(|finding| finding.id.as_str()).collect();
    ids.dedup();
    let needs: BTreeSet<&str> = open.iter().filter_map(|finding| finding.needs.as_deref()).collect();
    let needs = match needs.len() {
        1 => format!(" (needs {})", needs.into_iter().collect::<String>()),
        _ => String::new(),
    };
    format!("{} unknown{needs}", ids.join(", "))
}

/// Why there is nothing that could be ready.
fn nothing(kind: Units) -> &'static str {
    match kind {
        Units::Gpu => "there is no GPU.",
        Units::GpuNic => "there is no GPU with a NIC.",
        Units::GpuGpu => "there are no two GPUs.",
    }
}

/// The first reason, and how many more checks stand in the way.
fn reasons(blocked: &[Obstacle]) -> String {
    let Some(first) = blocked.first() else {
        return String::new();
    };
    let others: BTreeSet<&str> = blocked
        .iter()
        .map(|obstacle| obstacle.check.as_str())
        .filter(|check| *check != first.check)
        .collect();
    let more = match others.len() {
        0 => String::new(),
        _ => format!("; also {}", others.into_iter().collect::<Vec<_>>().join(", ")),
    };
    format!("{} ({}{more})", first.message, first.check)
}

#[cfg(test)]
mod tests;
