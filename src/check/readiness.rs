//! What the findings come to for one profile: where it is ready, where not, and what stands in the way.

use std::collections::BTreeSet;

use super::{Ctx, is_undetermined};
use crate::model::{Bdf, Finding, Kind, Obstacle, Outcome, Readiness, ReadyState};
use crate::profile::{Expectations, Profile, Units};
use crate::topo;

/// A GPU, or a GPU with its partner, and every function on the way.
struct Unit {
    name: String,
    rows: Vec<usize>,
    functions: BTreeSet<Bdf>,
}

/// How a profile stands. The findings are those under this profile alone.
pub fn readiness(ctx: &Ctx<'_>, profile: &Profile, findings: &[Finding]) -> Readiness {
    let units = units(ctx, profile.units);
    let expectations = Expectations::of(std::slice::from_ref(profile));
    let mut blocked: Vec<Obstacle> = Vec::new();
    let mut open: Vec<&Finding> = Vec::new();
    let mut stands = vec![true; units.len()];
    let mut everywhere = false;
    for finding in findings {
        let undetermined = is_undetermined(finding, &expectations);
        if finding.outcome != Outcome::Fail && !undetermined {
            continue;
        }
        let named = named(ctx, &finding.subject);
        let touched: Vec<usize> = (0..units.len())
            .filter(|at| named.is_empty() || units.get(*at).is_some_and(|unit| unit.is_touched(&named)))
            .collect();
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
        for at in touched {
            stands[at] = false;
        }
        blocked.extend(places.into_iter().map(|place| Obstacle {
            place,
            check: finding.id.clone(),
            message: finding.message.clone(),
        }));
    }
    let ready: Vec<String> = units
        .iter()
        .zip(&stands)
        .filter(|(_, stands)| **stands)
        .map(|(unit, _)| unit.name.clone())
        .collect();
    let state = match (blocked.is_empty(), open.is_empty()) {
        (false, _) if everywhere || ready.is_empty() => ReadyState::NotReady,
        (false, _) => ReadyState::Partly,
        (true, false) => ReadyState::Undetermined,
        (true, true) if units.is_empty() => ReadyState::NotReady,
        (true, true) => ReadyState::Ready,
    };
    let warnings = findings
        .iter()
        .filter(|finding| finding.outcome == Outcome::Warn)
        .count();
    let text = sentence(
        (profile.title(), profile.units),
        state,
        &ready,
        &blocked,
        &open,
        warnings,
    );
    Readiness {
        profile: profile.name.clone(),
        title: profile.title().to_owned(),
        state,
        ready: if state == ReadyState::NotReady || state == ReadyState::Undetermined {
            Vec::new()
        } else {
            ready
        },
        blocked,
        text,
    }
}

impl Unit {
    /// Whether one of these is part of it, or on its way. A pair touches those alone that have both of its ends.
    fn is_touched(&self, named: &[BTreeSet<Name>]) -> bool {
        let is_mine = |name: &Name| match name {
            Name::Row(row) => self.rows.contains(row),
            Name::Function(bdf) => self.functions.contains(bdf),
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

/// The devices that a subject names: `GPU0 (0000:17:00.0), GPU1 (0000:2a:00.0)`, `GPU0–GPU1`, `mlx5_0`, a port's address.
/// None in `machine`, `driver` or `this process`.
fn named(ctx: &Ctx<'_>, subject: &str) -> Vec<BTreeSet<Name>> {
    let names = subject.split(',').map(|part| names(ctx, part));
    names.filter(|names| !names.is_empty()).collect()
}

/// The devices that a part of a subject names: one, or the two of a pair.
fn names(ctx: &Ctx<'_>, part: &str) -> BTreeSet<Name> {
    part.split([' ', '(', ')', '–'])
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
    if let [a, b] = rows.as_slice()
        && let Ok(path) = topo::route(ctx.facts, ctx.forest, ctx.topology, *a, *b)
    {
        functions.extend(path.hops.iter().map(|hop| hop.bdf));
    }
    Unit {
        name: name.collect::<Vec<_>>().join("–"),
        functions,
        rows,
    }
}

fn sentence(
    (title, kind): (&str, Units),
    state: ReadyState,
    ready: &[String],
    blocked: &[Obstacle],
    open: &[&Finding],
    warnings: usize,
) -> String {
    let on = |places: &[String]| match places {
        [] => String::new(),
        places => format!(" on {}", places.join(", ")),
    };
    match state {
        ReadyState::Ready => {
            let but = match warnings {
                0 => String::new(),
                1 => ", with 1 warning".to_owned(),
                many => format!(", with {many} warnings"),
            };
            format!("{title}: ready{}{but}.", on(ready))
        }
        ReadyState::Partly => {
            let mut places: Vec<String> = Vec::new();
            for obstacle in blocked {
                if !places.contains(&obstacle.place) {
                    places.push(obstacle.place.clone());
                }
            }
            match places.is_empty() {
                true => format!("{title}: ready{}.", on(ready)),
                false => format!("{title}: ready{}, not{}: {}", on(ready), on(&places), reasons(blocked)),
            }
        }
        ReadyState::NotReady if blocked.is_empty() => format!("{title}: not ready: {}", nothing(kind)),
        ReadyState::NotReady => format!("{title}: not ready: {}", reasons(blocked)),
        ReadyState::Undetermined => {
            let mut ids: Vec<&str> = open.iter().map(|finding| finding.id.as_str()).collect();
            ids.dedup();
            let needs: BTreeSet<&str> = open.iter().filter_map(|finding| finding.needs.as_deref()).collect();
            let needs = match needs.len() {
                1 => format!(" (needs {})", needs.into_iter().collect::<String>()),
                _ => String::new(),
            };
            format!("{title}: cannot tell: {} unknown{needs}.", ids.join(", "))
        }
    }
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
mod tests {
    use super::*;
    use crate::check::run;
    use crate::check::testing::{GPU_PORT, machine, set_acs};
    use crate::model::{Fact, Facts, Why};
    use crate::profile::SHIPPED;
    use crate::topo::{Forest, topology};

    fn of(facts: &Facts, profile: &str) -> Readiness {
        let (_, text) = SHIPPED.iter().find(|(name, _)| *name == profile).expect("a profile");
        let profile = Profile::parse(profile, text, |_| true).expect("a profile");
        let ctx = Ctx {
            facts,
            topology: &topology(facts),
            forest: &Forest::new(facts.devices()),
            expectations: &Expectations::of(std::slice::from_ref(&profile)),
        };
        readiness(&ctx, &profile, &run(&ctx))
    }

    #[test]
    fn a_sound_machine_is_ready_on_its_pair() {
        let found = of(&machine(), "rdma");
        assert_eq!(
            (found.state, found.ready.as_slice()),
            (ReadyState::Ready, &["GPU0–NIC0".to_owned()][..])
        );
        assert_eq!(found.text, "GPUDirect RDMA: ready on GPU0–NIC0.");
        assert_eq!(of(&machine(), "gdrcopy").text, "gdrcopy: ready on GPU0.");
        // One GPU has no peer.
        let alone = of(&machine(), "p2p");
        assert_eq!(
            (alone.state, alone.text.as_str()),
            (ReadyState::NotReady, "peer to peer: not ready: there are no two GPUs.")
        );
    }

    #[test]
    fn a_port_on_the_way_blocks_the_pair() {
        let mut facts = machine();
        set_acs(&mut facts, GPU_PORT, 0x1d);
        let found = of(&facts, "rdma");
        assert_eq!(found.state, ReadyState::NotReady);
        assert_eq!(
            found
                .blocked
                .first()
                .map(|obstacle| (obstacle.place.as_str(), obstacle.check.as_str())),
            Some(("GPU0–NIC0", "pcie.acs"))
        );
        assert!(found.text.starts_with("GPUDirect RDMA: not ready: "), "{}", found.text);
    }

    #[test]
    fn what_concerns_the_machine_blocks_all_of_it() {
        let mut facts = machine();
        facts.rdma = Fact::Known(Vec::new());
        let found = of(&facts, "rdma");
        assert_eq!(found.state, ReadyState::NotReady);
        assert!(found.text.contains("rdma.device"), "{}", found.text);
        assert_eq!(of(&facts, "gdrcopy").state, ReadyState::Ready);
    }

    #[test]
    fn what_is_required_and_unknown_is_no_readiness() {
        let mut facts = machine();
        facts.process.memlock_soft = Fact::Unknown(Why::Denied);
        let found = of(&facts, "rdma");
        assert_eq!(found.state, ReadyState::Undetermined);
        assert_eq!(
            found.text,
            "GPUDirect RDMA: cannot tell: limits.memlock unknown (needs root)."
        );
    }
}
