//! Test cases over EFA. It has no connections: its queue pairs are of SRD, whose requests arrive or fail, in no order. Messages fit into a
//! packet, and reads and writes of remote memory are what a device may have.

use serde::{Deserialize, Serialize};
use verbs::{Srd, Transport};

use super::kind::Kind;
use super::settings::Settings;
use super::task::{Extent, Task};
use super::test_case::TestCase;
use crate::model::ProbedSrd;

/// What a port of an EFA device can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    reads: bool,
    writes: bool,
    /// Its messages wait for a receive buffer; without that they fail.
    waits: bool,
    /// The largest read or write.
    transfer: u32,
    /// The largest message.
    message: u32,
}

impl Abilities {
    pub fn of(device: Srd, longest_message: u32) -> Self {
        Self {
            reads: device.reads,
            writes: device.writes,
            waits: device.waits_for_receive,
            transfer: device.largest_transfer,
            message: longest_message,
        }
    }

    /// What two ends can do together; none if they are not of EFA.
    pub fn common(ours: Option<Self>, theirs: Option<Self>) -> Option<Self> {
        let (ours, theirs) = (ours?, theirs?);
        Some(Self {
            reads: ours.reads && theirs.reads,
            writes: ours.writes && theirs.writes,
            waits: ours.waits && theirs.waits,
            transfer: ours.transfer.min(theirs.transfer),
            message: ours.message.min(theirs.message),
        })
    }

    /// True if a message fails unless a receive buffer is posted before.
    pub fn fails_without_buffer(self, kind: Kind) -> bool {
        !self.waits && kind.is_received()
    }

    /// In a report.
    pub fn reported(self) -> ProbedSrd {
        ProbedSrd {
            rdma_read: self.reads,
            rdma_write: self.writes,
            largest_transfer: self.transfer,
            largest_message: self.message,
        }
    }

    /// The most bytes of an operation; none if there is no such operation.
    fn most(self, kind: Kind) -> Option<usize> {
        let most = match kind {
            Kind::Send | Kind::SendImmediate => self.message,
            Kind::Write | Kind::WriteImmediate if self.writes => self.transfer,
            Kind::Read if self.reads => self.transfer,
            _ => 0,
        };
        (most > 0).then_some(most as usize)
    }

    /// What stands for writes where one figure is wanted and the devices have none.
    fn instead_of_writes(self) -> Kind {
        if self.writes {
            Kind::Write
        } else if self.reads {
            Kind::Read
        } else {
            Kind::Send
        }
    }

    /// The test cases that SRD has, no larger than it allows.
    pub fn fit(self, cases: Vec<TestCase>, extent: Extent) -> Vec<TestCase> {
        let mut fitting: Vec<TestCase> = Vec::new();
        for case in cases {
            let fits = self.fitting(case, extent);
            fitting.extend(fits.filter(|case| !fitting.contains(case)));
        }
        fitting
    }

    fn fitting(self, case: TestCase, extent: Extent) -> Option<TestCase> {
        let kind = |kind: Kind| match kind {
            Kind::Write if extent != Extent::Whole => self.instead_of_writes(),
            kind => kind,
        };
        let sized = |kind, bytes: usize| Some(bytes.min(self.most(kind)?));
        Some(match case {
            TestCase::Verify(Transport::Rc, wanted, bytes) => {
                let kind = kind(wanted);
                TestCase::Verify(Transport::Srd, kind, sized(kind, bytes)?)
            }
            // The last byte of a write says nothing of the others.
            TestCase::PingPong(Kind::Write, bytes) => {
                let kind = Kind::WriteImmediate;
                TestCase::PingPong(kind, sized(kind, bytes)?)
            }
            TestCase::PingPong(kind, bytes) => TestCase::PingPong(kind, sized(kind, bytes)?),
            TestCase::Stream(wanted, bytes) => {
                let kind = kind(wanted);
                TestCase::Stream(kind, sized(kind, bytes)?)
            }
            TestCase::Both(bytes) => TestCase::Both(sized(Kind::Write, bytes)?),
            TestCase::Rate(bytes) => TestCase::Rate(sized(Kind::Write, bytes)?),
            // A chunk of a staged message is larger than a message of SRD.
            TestCase::Staged(_)
            | TestCase::Chunked(..)
            | TestCase::FirstTouch(_)
            | TestCase::Verify(..) => return None,
        })
    }

    /// What a user must know about the test cases.
    pub fn notes(self, task: &Task, staged: bool) -> Vec<String> {
        let mut notes = vec![
            "EFA has no connections: the queue pairs are of SRD. It has no atomic operations, and UC and UD are not verified".to_owned(),
        ];
        let mut note = |applies: bool, text: String| {
            if applies {
                notes.push(text);
            }
        };
        let missing = |what: &str, release: u8| {
            format!(
                "RDMA {what}s are not measured: efadv_query_device reports none at one end; the device has none, or libefa is older than rdma-core {release}"
            )
        };
        note(!self.reads, missing("read", 28));
        note(!self.writes, missing("write", 47));
        note(
            self.writes,
            "the latency of writes is that of writes with immediate data (write-imm): bytes arrive in no order, so the last one does not \
             show that the others are there"
                .to_owned(),
        );
        let most = task.terms.rdma_sizes().last().copied().unwrap_or(1);
        note(
            most > self.message as usize,
            format!(
                "messages (send) have at most {} bytes: larger sizes are measured by reads and writes alone",
                self.message
            ),
        );
        let transfers = self.reads || self.writes;
        note(
            transfers && most > self.transfer as usize,
            format!(
                "reads and writes have at most {} bytes: larger ones are not measured",
                self.transfer
            ),
        );
        note(
            staged,
            "staged bandwidth is not measured: a chunk is larger than a message of SRD".to_owned(),
        );
        let settings = Settings {
            receiver_retries: task.settings.receiver_retries,
            mtu: task.settings.mtu,
            ..Settings::default()
        };
        note(
            settings != task.settings,
            "an EFA device chooses paths and retries itself: traffic class, service level, hop limit, source port, rate, timeout and retries \
             have no effect"
                .to_owned(),
        );
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of an EFA device with and without RDMA writes.
    fn abilities(reads: bool, writes: bool) -> Abilities {
        Abilities { reads, writes, waits: true, transfer: 1 << 20, message: 8928 }
    }

    #[test]
    fn sizes_fit() {
        let cases = vec![
            TestCase::Verify(Transport::Rc, Kind::Send, 64),
            TestCase::Verify(Transport::Rc, Kind::Send, 65536),
            TestCase::Verify(Transport::Rc, Kind::Send, 1 << 20),
            TestCase::Verify(Transport::Rc, Kind::Read, 4 << 20),
            TestCase::Verify(Transport::Rc, Kind::FetchAdd, 8),
            TestCase::Verify(Transport::Ud, Kind::Send, 64),
            TestCase::PingPong(Kind::Write, 8),
            TestCase::Staged(65536),
        ];
        let all = [
            TestCase::Verify(Transport::Srd, Kind::Send, 64),
            TestCase::Verify(Transport::Srd, Kind::Send, 8928),
            TestCase::Verify(Transport::Srd, Kind::Read, 1 << 20),
            TestCase::PingPong(Kind::WriteImmediate, 8),
        ];
        let whole = Extent::Whole;
        assert_eq!(abilities(true, true).fit(cases.clone(), whole), all);
        assert_eq!(abilities(false, false).fit(cases, whole), all[..2]);
    }

    #[test]
    fn one_figure_without_writes() {
        let one = |reads, writes| {
            let cases = vec![TestCase::Stream(Kind::Write, 65536)];
            abilities(reads, writes).fit(cases, Extent::OneFigure)
        };
        assert_eq!(one(true, true), [TestCase::Stream(Kind::Write, 65536)]);
        assert_eq!(one(true, false), [TestCase::Stream(Kind::Read, 65536)]);
        assert_eq!(one(false, false), [TestCase::Stream(Kind::Send, 8928)]);
    }
}
