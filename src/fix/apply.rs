//! Applies a plan: records each step, runs it, verifies it.

use super::journal::Journals;
use super::reverse::{self, Back, reverse};
use super::step::{StepResult, act, check_file, record};
use super::{Error, Report};
use crate::model::{Entry, JOURNAL_SCHEMA, Journal, JournalState, Mutation, Plan, Progress, Step};
use crate::world::Executor;

/// Time and boot of a repair.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    /// UTC, RFC 3339.
    pub taken: String,
    /// `/proc/sys/kernel/random/boot_id`, if known.
    pub boot: Option<String>,
}

/// Applies a plan. The journal says how far it got; an error means that nothing was changed.
pub fn apply(
    executor: &Executor,
    plan: &Plan,
    moment: &Moment,
    report: Report<'_>,
) -> Result<Journal, Error> {
    let journals = Journals::create(executor)?;
    let _lock = journals.lock()?;
    let number = journals.next()?;
    journals.forget(moment.boot.as_deref(), reverse::is_volatile)?;
    if let Some(number) = journals.unfinished()? {
        return Err(Error::Unfinished(number));
    }
    for (_, step) in plan.steps() {
        check_file(executor, &step.action)?;
    }
    let mut repair = Repair {
        executor,
        journals: &journals,
        journal: Journal {
            schema: JOURNAL_SCHEMA.to_owned(),
            number,
            gdr: env!("CARGO_PKG_VERSION").to_owned(),
            taken: moment.taken.clone(),
            boot: moment.boot.clone(),
            state: JournalState::Open,
            steps: plan.steps().count(),
            entries: Vec::new(),
        },
        is_written: false,
    };
    for (fix, step) in plan.steps() {
        if let Err(error) = repair.step(fix, step, report) {
            return repair.stopped(error);
        }
    }
    repair.journal.state = JournalState::Applied;
    match repair.write() {
        Ok(()) => Ok(repair.journal),
        Err(error) => repair.stopped(error),
    }
}

struct Repair<'a> {
    executor: &'a Executor,
    journals: &'a Journals,
    journal: Journal,
    is_written: bool,
}

impl Repair<'_> {
    fn step(&mut self, fix: &str, step: &Step, report: Report<'_>) -> Result<(), Error> {
        let mutation = record(self.executor, self.journals, self.journal.number, &step.action)?;
        self.journal.entries.push(Entry {
            fix: fix.to_owned(),
            about: step.about.clone(),
            mutation,
            progress: Progress::Started,
        });
        if let Err(error) = self.write() {
            // The step did not run, so the journal must not list it.
            self.journal.entries.pop();
            return Err(error);
        }
        let Some(entry) = self.journal.entries.last_mut() else {
            return Ok(());
        };
        match act(self.executor, &step.action, &mut entry.mutation, report) {
            Ok(StepResult::Done) => entry.progress = Progress::Done,
            Ok(StepResult::Printed) => entry.progress = Progress::Printed,
            // The program did not run.
            Err(error @ Error::NotInstalled(_)) if matches!(entry.mutation, Mutation::Run(_)) => {
                self.journal.entries.pop();
                return Err(error);
            }
            Err(error) => {
                // Force is safe: nothing else ran since the step began.
                let at = self.journal.entries.len() - 1;
                let undo = reverse::Undo {
                    executor: self.executor,
                    journals: self.journals,
                    rebooted: false,
                    force: true,
                };
                // A program that failed may have done part of its work. The entry stays unless that is undone for certain.
                let back = reverse(&undo, &self.journal, at, report);
                if matches!(back, Ok(Back::Restored | Back::Already | Back::Nothing)) {
                    self.journal.entries.pop();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        if self.is_written {
            self.journals.write(&self.journal)?
        } else {
            self.journals.begin(&self.journal)?
        }
        self.is_written = true;
        Ok(())
    }

    /// Ends a repair after an error. If no change is left, it counts as never started.
    fn stopped(mut self, error: Error) -> Result<Journal, Error> {
        let touched = !self.journal.entries.is_empty();
        self.journal.state =
            if touched { JournalState::Stopped(error.to_string()) } else { JournalState::Undone };
        if self.is_written {
            // Ignored: the journal on disk already lists the steps that ran.
            let _ = self.write();
        }
        if touched {
            Ok(self.journal)
        } else {
            // Ignored: the next repair has another number.
            let _ = self.journals.discard(self.journal.number);
            Err(error)
        }
    }
}
