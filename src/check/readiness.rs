//! Summarizes the findings for one profile: which units are ready, and what blocks the others.

use std::collections::{BTreeMap, BTreeSet};

use super::causes::without_consequences;
use super::{Check, Ctx, Judged, Weighed, is_undetermined, pcie};
use crate::model::{Bdf, Kind, Obstacle, Outcome, Readiness, ReadyState, Verdict};
use crate::profile::{Profile, Units};
use crate::topo::MAX_PATHS;

/// Maximum obstacles listed per profile.
const MAX_OBSTACLES: usize = 4_096;

/// Maximum places named in a sentence.
const MAX_PLACES: usize = 8;

/// A GPU, or a GPU and its partner, with every PCI function on the path.
struct Unit {
    name: String,
    rows: Vec<usize>,
    /// A NIC that is nearer and down: its port blocks the unit if that is a fault.
    nearer_down: Option<usize>,
    functions: Vec<Bdf>,
    /// The ports whose ACS bits decide the path.
    governing: Vec<Bdf>,
}

/// State of a unit. The greater of two wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UnitState {
    Ready,
    /// A required fact is unknown.
    Undetermined,
    Blocked,
}

#[derive(Default)]
struct Blocked {
    first: Vec<Obstacle>,
    /// In order of arrival.
    checks: Vec<&'static str>,
    /// In order of arrival.
    places: Vec<String>,
    seen: BTreeSet<String>,
}

pub fn readiness(ctx: &Ctx<'_>, profile: &Profile, judged: &Judged) -> Readiness {
    let expectations = ctx.expectations.of_one(profile);
    let ctx = &Ctx { expectations: &expectations, ..*ctx };
    let again = judged.again(ctx);
    let findings = judged.weighed(&again, &expectations);
    let Some(units) = units(ctx, profile.units) else {
        return too_many(ctx, profile);
    };
    let effects = Effects::new(ctx, &units, profile.units, &findings);
    let ready = effects.units_in(UnitState::Ready, &units);
    let unknown = effects.units_in(UnitState::Undetermined, &units);
    let places = Places { ready: &ready, unknown: &unknown };
    let state = effects.state(&places);
    let warnings = findings.iter().filter(|finding| finding.outcome == Outcome::Warn).count();
    let text = sentence(
        (profile.title(), profile.units),
        state,
        places,
        &effects.blocked,
        &effects.open,
        warnings,
    );
    Readiness {
        profile: profile.name.clone(),
        title: profile.title().to_owned(),
        state,
        ready,
        blocked: effects.blocked.first,
        text,
    }
}

/// How the findings affect the units.
struct Effects<'a> {
    /// By the index of the unit.
    states: Vec<UnitState>,
    blocked: Blocked,
    /// Findings that leave a unit undetermined.
    open: Vec<&'a Weighed<'a>>,
    /// True if a finding blocks the whole machine.
    machine_blocked: bool,
}

impl<'a> Effects<'a> {
    fn new(ctx: &Ctx<'_>, units: &[Unit], kind: Units, findings: &'a [Weighed<'a>]) -> Self {
        let has_partners = kind == Units::GpuNic;
        let index = Index::new(units);
        let mut effects = Self {
            states: vec![UnitState::Ready; units.len()],
            blocked: Blocked::default(),
            open: Vec::new(),
            machine_blocked: false,
        };
        for finding in findings {
            let undetermined = is_undetermined(
                finding.outcome,
                finding.severity,
                finding.check.id,
                ctx.expectations,
            ) || (has_partners
                && finding.check.finds_partner
                && finding.outcome == Outcome::Unknown);
            if finding.outcome == Outcome::Fail || undetermined {
                let named = named(ctx, &finding.judgement.subject);
                let affected = if named.is_empty() {
                    (0..units.len()).collect()
                } else {
                    index.affected(finding.check, &named, units)
                };
                let machine = named.is_empty();
                if undetermined {
                    effects.leave_open(finding, &affected, machine)
                } else {
                    effects.block(finding, &affected, machine, units)
                }
            }
        }
        effects
    }

    fn leave_open(&mut self, finding: &'a Weighed<'a>, affected: &[usize], machine: bool) {
        self.raise(affected, UnitState::Undetermined);
        // A function that may be a GPU is not a unit yet.
        if machine || !affected.is_empty() || finding.check.finds_gpus {
            self.open.push(finding);
        }
    }

    fn block(&mut self, finding: &Weighed<'_>, affected: &[usize], machine: bool, units: &[Unit]) {
        self.raise(affected, UnitState::Blocked);
        if machine {
            self.machine_blocked = true;
            self.blocked.add("machine", finding);
            return;
        }
        for at in affected {
            self.blocked.add(&units[*at].name, finding);
        }
    }

    fn raise(&mut self, affected: &[usize], state: UnitState) {
        for at in affected {
            self.states[*at] = state.max(self.states[*at]);
        }
    }

    /// Names of the units in this state.
    fn units_in(&self, state: UnitState, units: &[Unit]) -> Vec<String> {
        units
            .iter()
            .zip(&self.states)
            .filter(|(_, found)| **found == state)
            .map(|(unit, _)| unit.name.clone())
            .collect()
    }

    fn state(&self, places: &Places<'_>) -> ReadyState {
        if self.machine_blocked {
            return ReadyState::NotReady;
        }
        match (self.blocked.is_empty(), self.open.is_empty()) {
            (true, true) if self.states.is_empty() => ReadyState::NotReady,
            (true, true) => ReadyState::Ready,
            _ if !places.ready.is_empty() => ReadyState::Partly,
            (false, _) if places.unknown.is_empty() => ReadyState::NotReady,
            _ => ReadyState::Undetermined,
        }
    }
}

/// Beyond the limit on GPU pairs, no pair is reported as ready.
fn too_many(ctx: &Ctx<'_>, profile: &Profile) -> Readiness {
    let gpus = ctx.topology.rows_of(Kind::Gpu).count();
    let title = profile.title();
    Readiness {
        profile: profile.name.clone(),
        title: title.to_owned(),
        state: ReadyState::Undetermined,
        ready: Vec::new(),
        blocked: Vec::new(),
        text: format!("{title}: cannot determine: {gpus} GPUs make more than {MAX_PATHS} pairs."),
    }
}

impl Blocked {
    fn add(&mut self, place: &str, finding: &Weighed<'_>) {
        if !self.checks.contains(&finding.check.id) {
            self.checks.push(finding.check.id);
        }
        if self.seen.insert(place.to_owned()) {
            self.places.push(place.to_owned());
        }
        if self.first.len() < MAX_OBSTACLES {
            self.first.push(Obstacle {
                place: place.to_owned(),
                check: finding.check.id.to_owned(),
                message: finding.judgement.message.clone(),
            });
        }
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}

struct Places<'a> {
    ready: &'a [String],
    unknown: &'a [String],
}

impl Unit {
    /// True if every name is part of the unit or on its path. A pair needs both of its ends.
    fn has_all(&self, check: &Check, names: &BTreeSet<Name>) -> bool {
        let functions = if check.judges_acs { &self.governing } else { &self.functions };
        names.iter().all(|name| match name {
            Name::Row(row) => {
                let is_down = check.judges_ports && self.nearer_down == Some(*row);
                is_down || self.rows.contains(row)
            }
            Name::Function(bdf) => functions.binary_search(bdf).is_ok(),
        })
    }
}

/// Units by the names they contain.
struct Index {
    by_row: BTreeMap<usize, Vec<usize>>,
    by_function: BTreeMap<Bdf, Vec<usize>>,
}

impl Index {
    fn new(units: &[Unit]) -> Self {
        let mut index = Self { by_row: BTreeMap::new(), by_function: BTreeMap::new() };
        for (at, unit) in units.iter().enumerate() {
            for row in unit.rows.iter().chain(&unit.nearer_down) {
                index.by_row.entry(*row).or_default().push(at);
            }
            for bdf in &unit.functions {
                index.by_function.entry(*bdf).or_default().push(at);
            }
        }
        index
    }

    /// The units that a finding on these names affects.
    fn affected(&self, check: &Check, named: &[BTreeSet<Name>], units: &[Unit]) -> Vec<usize> {
        let units_with = |name: &Name| match name {
            Name::Row(row) => self.by_row.get(row),
            Name::Function(bdf) => self.by_function.get(bdf),
        };
        let mut affected = BTreeSet::new();
        for names in named {
            // Start from the rarest name: a match contains all of them.
            let fewest = names
                .iter()
                .map(|name| units_with(name).map_or(&[][..], Vec::as_slice))
                .min_by_key(|units| units.len());
            let candidates = fewest.unwrap_or_default().iter();
            affected.extend(candidates.filter(|at| units[**at].has_all(check, names)));
        }
        affected.into_iter().collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Row(usize),
    Function(Bdf),
}

/// The devices in a subject such as `GPU0 (0000:17:00.0), GPU1 (0000:2a:00.0)`, `GPU0–GPU1`,
/// `mlx5_0`, `mlx5_0/1` or a port address. Empty for `machine`, `driver`, `this process`.
fn named(ctx: &Ctx<'_>, subject: &str) -> Vec<BTreeSet<Name>> {
    let names = subject.split(',').map(|part| names(ctx, part));
    names.filter(|names| !names.is_empty()).collect()
}

/// The one or two devices in a part of a subject.
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

/// The units a profile rates; `None` if there are too many pairs.
fn units(ctx: &Ctx<'_>, kind: Units) -> Option<Vec<Unit>> {
    let gpus: BTreeSet<usize> = ctx.topology.rows_of(Kind::Gpu).map(|(at, _)| at).collect();
    let has_nic = ctx.topology.rows_of(Kind::Nic).any(|(_, row)| !row.software);
    let rows: Vec<(Vec<usize>, Option<usize>)> = match kind {
        Units::Gpu => gpus.iter().map(|gpu| (vec![*gpu], None)).collect(),
        Units::GpuNic => ctx
            .topology
            .matches
            .iter()
            .filter(|found| gpus.contains(&found.row))
            // A GPU whose partner is unknown is a unit that `pcie.locality` leaves open.
            .filter(|found| found.pick.is_some() || (has_nic && found.verdict == Verdict::Unknown))
            .map(|found| {
                let rows: Vec<usize> = std::iter::once(found.row).chain(found.pick).collect();
                (rows, found.nearer_down)
            })
            .collect(),
        Units::GpuGpu if gpus.len() * gpus.len().saturating_sub(1) / 2 > MAX_PATHS => return None,
        Units::GpuGpu => gpus
            .iter()
            .flat_map(|a| gpus.iter().filter(move |b| a < b).map(|b| (vec![*a, *b], None)))
            .collect(),
    };
    Some(rows.into_iter().map(|(rows, down)| unit(ctx, rows, down)).collect())
}

fn unit(ctx: &Ctx<'_>, rows: Vec<usize>, nearer_down: Option<usize>) -> Unit {
    let row = |at: &usize| ctx.topology.rows.get(*at);
    let name = rows.iter().filter_map(row).map(|row| row.name.as_str());
    let mut functions: Vec<Bdf> = rows.iter().filter_map(row).filter_map(|row| row.bdf).collect();
    let mut governing = Vec::new();
    if let [a, b] = rows.as_slice()
        && let Ok(path) = ctx.topology.route(*a, *b)
    {
        functions.extend(path.hops.iter().map(|hop| hop.bdf));
        if !pcie::is_joined(ctx, *a, *b) {
            governing.extend(ctx.topology.governing(&path).map(|redirect| redirect.port));
        }
    }
    for functions in [&mut functions, &mut governing] {
        functions.sort_unstable();
        functions.dedup();
        functions.shrink_to_fit();
    }
    Unit { name: name.collect::<Vec<_>>().join("–"), nearer_down, functions, governing, rows }
}

fn sentence(
    (title, kind): (&str, Units),
    state: ReadyState,
    places: Places<'_>,
    blocked: &Blocked,
    open: &[&Weighed<'_>],
    warnings: usize,
) -> String {
    let on = |places: &[String]| match places {
        [] => String::new(),
        places if places.len() > MAX_PLACES => format!(
            " on {} and {} more",
            places[..MAX_PLACES].join(", "),
            places.len() - MAX_PLACES
        ),
        places => format!(" on {}", places.join(", ")),
    };
    let ready = format!("{title}: ready{}", on(places.ready));
    let reasons = without_consequences(&blocked.checks).join(", ");
    let not = || format!("not{}: {reasons}.", on(&blocked.places));
    let cannot_determine = || format!("cannot determine{}: {}", on(places.unknown), unknown(open));
    match (state, blocked.is_empty(), open.is_empty()) {
        (ReadyState::Ready, ..) => {
            let but = match warnings {
                0 => String::new(),
                1 => ", with 1 warning".to_owned(),
                count => format!(", with {count} warnings"),
            };
            format!("{ready}{but}.")
        }
        (ReadyState::NotReady, true, _) => format!("{title}: not ready: {}", no_units(kind)),
        (ReadyState::NotReady, false, _) => format!("{title}: not ready: {reasons}."),
        (ReadyState::Partly, _, true) => format!("{ready}, {}", not()),
        (ReadyState::Partly, true, _) => format!("{ready}; {}.", cannot_determine()),
        (ReadyState::Partly, false, false) => format!("{ready}; {}; {}", cannot_determine(), not()),
        (ReadyState::Undetermined, true, _) => {
            format!("{title}: cannot determine: {}.", unknown(open))
        }
        (ReadyState::Undetermined, false, _) => {
            format!("{title}: {}; {}", cannot_determine(), not())
        }
    }
}

/// The undetermined checks, with what they need if it is the same for all.
fn unknown(open: &[&Weighed<'_>]) -> String {
    let mut ids: Vec<&str> = open.iter().map(|finding| finding.check.id).collect();
    ids.dedup();
    let needs: BTreeSet<&str> =
        open.iter().filter_map(|finding| finding.judgement.needs.as_deref()).collect();
    let needs = match needs.len() {
        1 => format!(" (needs {})", needs.into_iter().collect::<String>()),
        _ => String::new(),
    };
    format!("{}{needs}", ids.join(", "))
}

/// Why no unit exists.
fn no_units(kind: Units) -> &'static str {
    match kind {
        Units::Gpu => "there is no GPU.",
        Units::GpuNic => "there is no GPU with a NIC.",
        Units::GpuGpu => "there are no two GPUs.",
    }
}

#[cfg(test)]
mod tests;
