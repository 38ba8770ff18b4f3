//! Injected faults, and detected software errors.

use std::time::Duration;

use crate::wire::Syndrome;

/// A fault of one WQE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A send fails without being executed.
    Fail {
        /// The syndrome.
        syndrome: Syndrome,
        /// The vendor syndrome.
        vendor: u8,
    },
    /// A receive fails when a message arrives; the sender's WQE fails with [`Syndrome::RemoteOperation`].
    FailReceive {
        /// The syndrome.
        syndrome: Syndrome,
        /// The vendor syndrome.
        vendor: u8,
    },
    /// A send, and those after it, start later by this time.
    Delay(Duration),
    /// A send, and those after it, start after one more CQE of another queue pair's send queue, counted from the injection.
    Behind {
        /// The other QPN.
        qpn: u32,
    },
    /// A send is executed but its CQE is never written; the next CQE uses its slot.
    Drop,
    /// The CQE of a send has the owner bit of the other pass.
    WrongOwner,
    /// The CQE of a send is counted but not written: the slot keeps its old bytes.
    Stale,
}

/// An error of software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A doorbell for a WQE that the record does not cover yet.
    DoorbellBeforeRecord {
        /// The QPN.
        qpn: u32,
        /// First block of the WQE.
        index: u16,
        /// The record.
        record: u16,
    },
    /// A doorbell with another QPN.
    WrongQueuePair {
        /// QPN of the register.
        qpn: u32,
        /// QPN in the doorbell.
        rung: u32,
    },
    /// A record that exceeds the queue's depth.
    RecordBeyondQueue {
        /// The QPN.
        qpn: u32,
        /// The record.
        record: u16,
    },
    /// A WQE whose index is not that of its block: an old or overwritten one.
    WrongIndex {
        /// The QPN.
        qpn: u32,
        /// The block.
        block: u16,
        /// Index in the WQE.
        index: u16,
    },
    /// A completion queue was full.
    Overrun {
        /// QPN of the lost CQE.
        qpn: u32,
    },
}

/// Pending injections and recorded violations.
#[derive(Debug, Default)]
pub(super) struct Faults {
    injections: Vec<Injection>,
    violations: Vec<Violation>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Injection {
    pub qpn: u32,
    /// WQEs to skip first.
    pub after: u32,
    pub effect: Effect,
    /// Required number of CQEs of the other queue pair of [`Effect::Behind`].
    pub count: u64,
}

/// Limit of recorded violations.
const KEPT: usize = 1024;

impl Faults {
    pub(super) fn inject(&mut self, injection: Injection) {
        self.injections.push(injection);
    }

    pub(super) fn note(&mut self, violation: Violation) {
        if self.violations.len() < KEPT {
            self.violations.push(violation);
        }
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Takes the injections for the next send of `qpn`.
    pub(super) fn for_send(&mut self, qpn: u32) -> Vec<Injection> {
        self.due(qpn, |effect| !matches!(effect, Effect::FailReceive { .. }))
    }

    /// Takes the error injected for the next receive of `qpn`.
    pub(super) fn for_receive(&mut self, qpn: u32) -> Option<(Syndrome, u8)> {
        let due = self.due(qpn, |effect| matches!(effect, Effect::FailReceive { .. }));
        due.into_iter().find_map(|injection| match injection.effect {
            Effect::FailReceive { syndrome, vendor } => Some((syndrome, vendor)),
            _ => None,
        })
    }

    /// Counts one WQE and takes its injections.
    fn due(&mut self, qpn: u32, matches: impl Fn(&Effect) -> bool) -> Vec<Injection> {
        let mut due = Vec::new();
        self.injections.retain_mut(|injection| {
            if injection.qpn != qpn || !matches(&injection.effect) {
                return true;
            }
            match injection.after.checked_sub(1) {
                Some(left) => {
                    injection.after = left;
                    true
                }
                None => {
                    due.push(*injection);
                    false
                }
            }
        });
        due
    }
}
