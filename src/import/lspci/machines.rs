//! The machines that the runs of lspci in a text may describe: runs with common functions and without contradiction are of one.
//!
//! A text may have many runs and a large machine. So a run costs as much as it has functions, not as much as there are.

use std::collections::{BTreeMap, BTreeSet};

use super::ParseNotes;
use super::dump::{self, Functions};
use super::function::Function;
use crate::model::Bdf;

/// Limit of unconnected parts.
const MAX_RUNS: usize = 256;

/// Machines without common functions.
#[derive(Default)]
pub(super) struct Machines {
    /// By number, in the order in which they were last changed.
    machines: BTreeMap<usize, Functions>,
    /// The place of the machine of each function, which keeps it when its number changes.
    places: BTreeMap<Bdf, usize>,
    /// The number of the machine at each place.
    numbers: Vec<usize>,
    next: usize,
}

/// A run, and its place once a machine was merged into it.
struct Run {
    functions: Functions,
    place: Option<usize>,
}

impl Machines {
    pub fn has(&self, bdf: Bdf) -> bool {
        self.places.contains_key(&bdf)
    }

    pub fn all(self) -> Vec<Functions> {
        self.machines.into_values().collect()
    }

    /// Merges a run into the machine that it certainly describes, or adds it as another.
    pub fn join(&mut self, run: Vec<Function>, failure: &mut ParseNotes) {
        if run.is_empty() {
            return;
        }
        let mut run = Run { functions: dump::settle(run, failure), place: None };
        let common = run.functions.keys().filter_map(|bdf| self.places.get(bdf));
        let common: BTreeSet<usize> = common.map(|place| self.numbers[*place]).collect();
        for number in common {
            let Some(machine) = self.machines.remove(&number) else {
                continue;
            };
            if !self.meet(&mut run, machine, failure) {
                // The run was ignored, and no other machine has a function of what is left.
                break;
            }
        }
        if self.machines.len() < MAX_RUNS {
            self.insert(run);
        } else {
            let message = format!("has nothing in common with {MAX_RUNS} earlier parts: ignored");
            failure.add(first(&run.functions), message);
        }
    }

    /// Merges a machine with common functions into the run, or drops the smaller of both; false if that is the run.
    fn meet(&mut self, run: &mut Run, machine: Functions, failure: &mut ParseNotes) -> bool {
        let (few, many) = if run.functions.len() < machine.len() {
            (&run.functions, &machine)
        } else {
            (&machine, &run.functions)
        };
        let common = few.keys().filter(|bdf| many.contains_key(bdf)).count();
        let contradiction = dump::contradiction(&machine, &run.functions);
        if contradiction.is_none() && common == few.len() {
            self.merge(run, machine, failure);
            return true;
        }
        let is_kept = run.functions.len() > machine.len();
        let (kept, dropped) =
            if is_kept { (&run.functions, &machine) } else { (&machine, &run.functions) };
        let (line, message) = match contradiction {
            Some((of_machine, of_run)) => {
                let (by, left_out) =
                    if is_kept { (of_run, of_machine) } else { (of_machine, of_run) };
                (
                    left_out,
                    format!(
                        "contradicts line {by}: ignored, because it is another machine or another state of this one"
                    ),
                )
            }
            None => (
                first(dropped),
                format!(
                    "shares only some functions with the part at line {}: ignored, because it may be another machine",
                    first(kept)
                ),
            ),
        };
        failure.add(line, message);
        if is_kept {
            self.forget(&machine, None);
            return true;
        }
        let place = self.place(&machine);
        if let Some(own) = run.place {
            self.forget(&run.functions, Some(own));
        }
        *run = Run { functions: machine, place };
        false
    }

    fn merge(&mut self, run: &mut Run, machine: Functions, failure: &mut ParseNotes) {
        let place = self.place(&machine);
        // The larger of both stays at its place.
        run.place = match run.place {
            Some(own) if run.functions.len() > machine.len() => {
                self.put(&machine, own);
                Some(own)
            }
            _ => {
                if let Some(place) = place {
                    self.put(&run.functions, place);
                }
                place
            }
        };
        run.functions = dump::add(machine, std::mem::take(&mut run.functions), failure);
    }

    fn place(&self, machine: &Functions) -> Option<usize> {
        self.places.get(machine.keys().next()?).copied()
    }

    fn put(&mut self, functions: &Functions, place: usize) {
        for bdf in functions.keys() {
            self.places.insert(*bdf, place);
        }
    }

    /// Forgets functions, or only those at a place.
    fn forget(&mut self, functions: &Functions, at: Option<usize>) {
        for bdf in functions.keys() {
            if at.is_none() || self.places.get(bdf).copied() == at {
                self.places.remove(bdf);
            }
        }
    }

    fn insert(&mut self, run: Run) {
        let place = run.place.unwrap_or_else(|| {
            self.numbers.push(0);
            let place = self.numbers.len() - 1;
            self.put(&run.functions, place);
            place
        });
        self.numbers[place] = self.next;
        self.machines.insert(self.next, run.functions);
        self.next += 1;
    }
}

/// The first line of a machine.
fn first(functions: &Functions) -> usize {
    let lines = functions.values().map(|merged| merged.line);
    lines.min().unwrap_or_default()
}
