//! What is made to go wrong, and what software did wrong.

use std::time::Duration;

use crate::wire::Syndrome;

/// What happens to one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A send entry is not done, and fails so.
    Fail {
        /// The syndrome of its completion.
        syndrome: Syndrome,
        /// The vendor's.
        vendor: u8,
    },
    /// A receive entry that a message was to go to fails so; the sender is told that the remote end could not execute the request.
    FailReceive {
        /// The syndrome of its completion.
        syndrome: Syndrome,
        /// The vendor's.
        vendor: u8,
    },
    /// A send entry, and those behind it, begin so much later.
    Delay(Duration),
    /// A send entry, and those behind it, begin after one more completion of another queue pair's send queue, counted from the
    /// injection.
    Behind {
        /// The other one.
        qpn: u32,
    },
    /// A send entry is done and its completion is never written; the next one takes its place.
    Drop,
    /// The completion of a send entry has the owner bit of the other pass.
    WrongOwner,
    /// The completion of a send entry is counted and not written: what was there before stays.
    Stale,
}

/// What software did that it must not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A doorbell was rung for an entry that the record does not cover yet.
    DoorbellBeforeRecord {
        /// The queue pair.
        qpn: u32,
        /// Block of the entry.
        index: u16,
        /// Up to which block the record went.
        record: u16,
    },
    /// A doorbell was rung with another queue pair's number.
    WrongQueuePair {
        /// Whose register it is.
        qpn: u32,
        /// Whose number was written.
        rung: u32,
    },
    /// A record is more than the whole queue ahead of what was done.
    RecordBeyondQueue {
        /// The queue pair.
        qpn: u32,
        /// The record.
        record: u16,
    },
    /// An entry with an index other than its block's: an old one, or one that was overwritten.
    WrongIndex {
        /// The queue pair.
        qpn: u32,
        /// The block.
        block: u16,
        /// What the entry says.
        index: u16,
    },
    /// A completion queue was full: what had been written was not polled.
    Overrun {
        /// The queue pair whose completion found no place.
        qpn: u32,
    },
}

/// What is still to happen, and what was noted.
#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: Vec<Planned>,
    violations: Vec<Violation>,
}

/// What is to happen to one entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub qpn: u32,
    /// So many entries later.
    pub after: u32,
    pub effect: Effect,
    /// How many completions the other queue pair of [`Effect::Behind`] must have had.
    pub count: u64,
}

/// What is kept of violations: enough to see what happened, in a program that goes on.
const KEPT: usize = 1024;

impl Faults {
    pub(super) fn inject(&mut self, planned: Planned) {
        self.planned.push(planned);
    }

    pub(super) fn note(&mut self, violation: Violation) {
        if self.violations.len() < KEPT {
            self.violations.push(violation);
        }
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// A send entry of `qpn` begins: what happens to it.
    pub(super) fn of_send(&mut self, qpn: u32) -> Vec<Planned> {
        self.due(qpn, |effect| !matches!(effect, Effect::FailReceive { .. }))
    }

    /// A receive entry of `qpn` is taken: how it fails.
    pub(super) fn of_receive(&mut self, qpn: u32) -> Option<(Syndrome, u8)> {
        let due = self.due(qpn, |effect| matches!(effect, Effect::FailReceive { .. }));
        due.into_iter().find_map(|planned| match planned.effect {
            Effect::FailReceive { syndrome, vendor } => Some((syndrome, vendor)),
            _ => None,
        })
    }

    /// Counts one entry, and gives what is planned for it.
    fn due(&mut self, qpn: u32, about: impl Fn(&Effect) -> bool) -> Vec<Planned> {
        let mut due = Vec::new();
        self.planned.retain_mut(|planned| {
            if planned.qpn != qpn || !about(&planned.effect) {
                return true;
            }
            match planned.after.checked_sub(1) {
                Some(left) => {
                    planned.after = left;
                    true
                }
                None => {
                    due.push(*planned);
                    false
                }
            }
        });
        due
    }
}
