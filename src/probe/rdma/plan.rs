//! The test cases: what is verified and measured, at which sizes, and for how long.

use std::time::Duration;

use verbs::Transport;

use super::control::Offer;
use super::device::Device;
use super::end::End;
use super::kind::Kind;
use super::settings::RelaxedOrdering;
use super::srd::Abilities;
use super::task::{Extent, Task};
use super::test_case::{Planned, TestCase};
use crate::probe::depth::{Depth, measuring_time};
use crate::probe::terms::Terms;

/// Verified operations of each transport. A plain UC write is left out: its arrival cannot be detected.
const VERIFIED: [(Transport, &[Kind]); 3] = [
    (
        Transport::Rc,
        &[
            Kind::Write,
            Kind::WriteImmediate,
            Kind::Read,
            Kind::Send,
            Kind::SendImmediate,
            Kind::FetchAdd,
            Kind::CompareSwap,
        ],
    ),
    (Transport::Uc, &[Kind::WriteImmediate, Kind::Send, Kind::SendImmediate]),
    (Transport::Ud, &[Kind::Send, Kind::SendImmediate]),
];
/// Operations measured over RC.
const MEASURED: [Kind; 3] = [Kind::Write, Kind::Read, Kind::Send];
/// Message size for the message rate.
const RATE: usize = 8;
/// Largest message: the limits of every NIC for a region and for a message are at least this.
pub const MAX_MESSAGE: usize = 1 << 30;
/// Messages below this size are not worth to be staged.
const MIN_STAGED: usize = 64 << 10;

/// Note for a staged connection with a GPU at one end only.
const ONE_GPU: &str = "one end has GPU memory without GPUDirect RDMA, and the other has host memory: bandwidth is not \
                       measured, because staged copies run from GPU to GPU only";

/// Note for the simulated NIC.
const RELIABLE: &str =
    "UC and UD are not verified: the simulated NIC has reliable connections only";

/// The test cases between two ends, in order, and a note about omitted ones.
pub fn test_cases(task: &Task, end: &End, other: &Offer) -> (Vec<Planned>, Option<&'static str>) {
    let ends = Ends {
        mtu: task.settings.mtu(end.mtu, other.mtu) as usize,
        staged: end.is_staged() || other.staged,
        gpus: end.selection.pinned.is_some() && other.pinned,
        seen: end.store.is_seen() && other.seen,
        reliable_only: matches!(end.device, Device::Sim(_)),
        unordered: end.srd.is_some(),
        atomics: end.atomics && other.atomics,
    };
    let left_out = match ends {
        Ends { reliable_only: true, .. } => Some(RELIABLE),
        Ends { staged: true, gpus: false, .. } => Some(ONE_GPU),
        _ => None,
    };
    let planned = planned(task, test_cases_of(task, ends), end, other);
    (planned, left_out)
}

/// The test cases with their connections.
pub fn planned(task: &Task, cases: Vec<TestCase>, end: &End, other: &Offer) -> Vec<Planned> {
    let may_relax = end.relaxed_ordering.is_ok() && other.relaxed_ordering;
    let (transport, cases) = match Abilities::common(end.srd, other.srd) {
        Some(srd) => (Transport::Srd, srd.fit(cases, task.extent)),
        None => (Transport::Rc, cases),
    };
    let cases = cases.into_iter();
    cases.flat_map(|test_case| plan(task, transport, test_case, may_relax)).collect()
}

/// A test case once, or with relaxed and with strict order.
fn plan(task: &Task, transport: Transport, test_case: TestCase, may_relax: bool) -> Vec<Planned> {
    let orders: &[bool] = match task.relaxed_ordering {
        // Where memory is polled, or bytes are compared without a completion, the order matters.
        _ if !may_relax || !test_case.is_bandwidth() => &[false],
        RelaxedOrdering::On => &[true],
        // A curve has one bandwidth.
        RelaxedOrdering::Both if task.curve().is_some() => &[true],
        RelaxedOrdering::Off => &[false],
        RelaxedOrdering::Both => &[true, false],
    };
    let planned = |relaxed: &bool| Planned {
        test_case,
        purpose: test_case.purpose(transport, task.queue_pairs, task.settings, *relaxed),
        is_strict_twin: orders.len() > 1 && !relaxed,
    };
    orders.iter().map(planned).collect()
}

/// Properties of the ends that select the test cases.
#[derive(Debug, Clone, Copy)]
struct Ends {
    mtu: usize,
    staged: bool,
    gpus: bool,
    seen: bool,
    /// Without UC and UD.
    reliable_only: bool,
    /// Over SRD.
    unordered: bool,
    /// Both NICs have atomic operations.
    atomics: bool,
}

fn test_cases_of(task: &Task, ends: Ends) -> Vec<TestCase> {
    let terms = &task.terms;
    let sizes = terms.rdma_sizes();
    let most = sizes.last().copied().unwrap_or(1);
    let bandwidth = match (ends.staged, ends.gpus) {
        (true, true) => Some(TestCase::Staged(most)),
        (true, false) => None,
        (false, _) => Some(TestCase::Stream(Kind::Write, most)),
    };
    match task.extent {
        Extent::Whole => {}
        Extent::OneFigure => {
            let verify = TestCase::Verify(Transport::Rc, Kind::Write, most);
            return std::iter::once(verify).chain(bandwidth).collect();
        }
        Extent::Link => {
            let least = sizes.first().copied().unwrap_or(1);
            let back = (!ends.staged).then_some(TestCase::Stream(Kind::Read, most));
            let checked = [
                TestCase::Verify(Transport::Rc, Kind::Write, most),
                TestCase::PingPong(Kind::Send, least),
            ];
            return checked.into_iter().chain(bandwidth).chain(back).collect();
        }
        Extent::NodeCost => {
            let least = sizes.first().copied().unwrap_or(1);
            let rate = (!ends.staged).then_some(TestCase::Rate(RATE));
            let latency = std::iter::once(TestCase::PingPong(Kind::Send, least));
            return latency.chain(bandwidth).chain(rate).collect();
        }
    }
    let verified = |(transport, kinds): (Transport, &[Kind])| -> Vec<TestCase> {
        let longest = if transport == Transport::Ud { ends.mtu } else { usize::MAX };
        let sizes = terms.depth.rdma_verified().iter().copied();
        let sizes: Vec<usize> = sizes.filter(|size| *size <= most.min(longest)).collect();
        let cases = |kind: &Kind| {
            if kind.is_atomic() {
                vec![TestCase::Verify(transport, *kind, 8)]
            } else {
                sizes.iter().map(|size| TestCase::Verify(transport, *kind, *size)).collect()
            }
        };
        let kinds = kinds.iter();
        let kinds = kinds.filter(|kind| ends.atomics || !kind.is_atomic());
        kinds.flat_map(cases).collect()
    };
    // Unreliable transports come last: they may lose messages.
    let [reliable, unreliable @ ..] = VERIFIED;
    let mut test_cases = verified(reliable);
    test_cases.extend(measured(terms, &sizes, ends));
    if !ends.reliable_only {
        test_cases.extend(unreliable.into_iter().flat_map(verified));
    }
    test_cases
}

/// Measurements over RC.
fn measured(terms: &Terms, sizes: &[usize], ends: Ends) -> Vec<TestCase> {
    let most = sizes.last().copied().unwrap_or(1);
    let mut test_cases = Vec::new();
    if ends.staged {
        // Bandwidth between pinned buffers says nothing about the GPU memory under test.
        test_cases.extend(sizes.iter().map(|size| TestCase::PingPong(Kind::Send, *size)));
        if ends.gpus {
            test_cases.extend(sizes.iter().map(|size| TestCase::Staged(*size)));
        }
        return test_cases;
    }
    for kind in MEASURED {
        // Write latency needs a CPU that polls the target, which GPU memory does not allow; SRD measures writes with immediate data.
        if kind != Kind::Write || ends.seen || ends.unordered {
            test_cases.extend(sizes.iter().map(|size| TestCase::PingPong(kind, *size)));
        }
    }
    for kind in MEASURED {
        test_cases.extend(sizes.iter().map(|size| TestCase::Stream(kind, *size)));
    }
    let large: Vec<usize> = match terms.depth {
        Depth::Quick => vec![most],
        Depth::Default | Depth::Full => {
            let large = sizes.iter().copied();
            large.filter(|size| *size >= MIN_STAGED.min(most)).collect()
        }
    };
    test_cases.extend(large.iter().copied().map(TestCase::Both));
    if terms.sizes.is_empty() {
        test_cases.push(TestCase::Rate(RATE));
    }
    if ends.gpus {
        test_cases.extend(large.into_iter().map(TestCase::Staged));
    }
    test_cases
}

impl Terms {
    /// The sizes to measure, ascending.
    pub fn rdma_sizes(&self) -> Vec<usize> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        match self.depth {
            Depth::Quick => vec![8, 4 << 10, 64 << 10, 1 << 20],
            Depth::Default => (0..=13).map(|exponent| 1 << (2 * exponent)).collect(),
            Depth::Full => (0..=26).map(|exponent| 1 << exponent).collect(),
        }
    }

    pub fn rdma_room(&self) -> usize {
        self.rdma_sizes().last().copied().unwrap_or(1).max(RATE)
    }
}

impl Depth {
    /// The sizes that are verified; none larger than the largest that is measured.
    pub fn rdma_verified(self) -> &'static [usize] {
        match self {
            Self::Quick => &[1, 4 << 10, 64 << 10, 1 << 20],
            Self::Default | Self::Full => &[1, 64, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20],
        }
    }

    /// Time of one measurement.
    pub fn rdma_point(self) -> Duration {
        measuring_time(Duration::from_millis(match self {
            Self::Quick => 60,
            Self::Default => 200,
            Self::Full => 1000,
        }))
    }
}

/// Requests in flight on each queue pair: 128 small ones as in perftest, and enough large ones to keep a link busy.
pub fn depth_of(bytes: usize, pairs: u32) -> u32 {
    let all = ((4 << 20) / bytes.max(1)).clamp(2, 128) as u32;
    (all / pairs.max(1)).max(2)
}

#[cfg(test)]
mod tests {
    use super::super::purpose::Traffic;
    use super::super::settings::Settings;
    use super::super::task::{LocalEnd, Part, Port};
    use super::*;
    use crate::model::Shares;

    const PLAIN: Ends = Ends {
        mtu: 1024,
        staged: false,
        gpus: false,
        seen: true,
        reliable_only: false,
        unordered: false,
        atomics: true,
    };

    fn task(depth: Depth, sizes: &[usize], all: bool) -> Task {
        let place = LocalEnd {
            subject: "mlx5_0:1".to_owned(),
            port: Port { device: "mlx5_0".to_owned(), number: 1, ..Port::default() },
            ..LocalEnd::default()
        };
        let terms = Terms {
            depth,
            sizes: sizes.to_vec(),
            shares: Shares::default(),
            timeout: Duration::ZERO,
        };
        Task {
            subject: "mlx5_0:1".to_owned(),
            part: Part::Server(place),
            limit: None,
            room: terms.rdma_room(),
            queue_pairs: 2,
            settings: Settings::default(),
            relaxed_ordering: RelaxedOrdering::On,
            on_demand: false,
            extent: if all { Extent::OneFigure } else { Extent::Whole },
            terms,
        }
    }

    /// Two ports of 50 GB/s below a path of 63 GB/s: one queue pair has one port.
    #[test]
    fn a_queue_pair_uses_one_port_of_a_bond() {
        let mut task = task(Depth::Quick, &[], false);
        let Part::Server(place) = &mut task.part else {
            panic!("a server");
        };
        (place.rate, place.bonded) = (Some(50_000_000_000), 2);
        assert_eq!(place.rate_of_bond(), Some(100_000_000_000));
        for (queue_pairs, limit, share) in [
            (1, 100_000_000_000, 0.5),
            (2, 100_000_000_000, 1.0),
            (8, 100_000_000_000, 1.0),
            (1, 50_000_000_000, 1.0),
        ] {
            task.queue_pairs = queue_pairs;
            assert_eq!(task.share_of_bond(limit), share, "{queue_pairs} {limit}");
        }
    }

    #[test]
    fn depth_by_size() {
        assert_eq!(
            [1, 32 << 10, 64 << 10, 1 << 30].map(|bytes| depth_of(bytes, 1)),
            [128, 128, 64, 2]
        );
        assert_eq!([1, 1 << 20].map(|bytes| depth_of(bytes, 4)), [32, 2]);
    }

    #[test]
    fn verified_sizes() {
        let test_cases = test_cases_of(&task(Depth::Default, &[8, 4096], false), PLAIN);
        let sizes = |transport, kind| -> Vec<usize> {
            let size = |test_case: &TestCase| match test_case {
                TestCase::Verify(by, what, bytes) if (*by, *what) == (transport, kind) => {
                    Some(*bytes)
                }
                _ => None,
            };
            test_cases.iter().filter_map(size).collect()
        };
        assert_eq!(sizes(Transport::Rc, Kind::Write), [1, 64, 4096]);
        assert_eq!(sizes(Transport::Ud, Kind::Send), [1, 64]);
        assert_eq!(sizes(Transport::Rc, Kind::FetchAdd), [8]);
        // Unreliable transports are last.
        assert!(matches!(test_cases.last(), Some(TestCase::Verify(Transport::Ud, ..))));
    }

    #[test]
    fn atomics_where_both_nics_have_them() {
        let without = Ends { atomics: false, ..PLAIN };
        let has_atomics = |ends: Ends| {
            let cases = test_cases_of(&task(Depth::Quick, &[8], false), ends);
            cases.iter().any(
                |case| matches!(case, TestCase::Verify(Transport::Rc, kind, _) if kind.is_atomic()),
            )
        };
        assert!(has_atomics(PLAIN) && !has_atomics(without));
    }

    #[test]
    fn measurements_by_memory() {
        let task = task(Depth::Quick, &[8, 65536], false);
        let has = |ends: Ends, test_case: TestCase| test_cases_of(&task, ends).contains(&test_case);
        let gpus = Ends { gpus: true, seen: false, ..PLAIN };
        assert!(
            has(PLAIN, TestCase::PingPong(Kind::Write, 8))
                && !has(gpus, TestCase::PingPong(Kind::Write, 8))
        );
        assert!(!has(PLAIN, TestCase::Staged(65536)) && has(gpus, TestCase::Staged(65536)));
        let staged = Ends { staged: true, ..gpus };
        assert!(has(staged, TestCase::Staged(8)) && !has(staged, TestCase::Stream(Kind::Write, 8)));
        // Staged copies are from GPU to GPU.
        let one_gpu = Ends { gpus: false, ..staged };
        assert!(
            has(one_gpu, TestCase::PingPong(Kind::Send, 8)) && !has(one_gpu, TestCase::Staged(8))
        );
        assert!(!has(one_gpu, TestCase::Stream(Kind::Write, 8)));
    }

    #[test]
    fn relaxed_ordering_is_for_bandwidth() {
        let [stream, write, send] = [
            TestCase::Stream(Kind::Write, 8),
            TestCase::PingPong(Kind::Write, 8),
            TestCase::Verify(Transport::Rc, Kind::Send, 8),
        ];
        let orders = |wanted, test_case, may_relax| -> Vec<(bool, bool)> {
            let task = Task { relaxed_ordering: wanted, ..task(Depth::Quick, &[8], false) };
            let planned = plan(&task, Transport::Rc, test_case, may_relax).into_iter();
            planned
                .map(|planned| (planned.purpose.relaxed_ordering, planned.is_strict_twin))
                .collect()
        };
        use RelaxedOrdering::{Both, Off, On};
        let strict = [(false, false)];
        assert_eq!(orders(On, stream, true), [(true, false)]);
        assert_eq!(orders(Off, stream, true), strict);
        assert_eq!(orders(Both, stream, true), [(true, false), (false, true)]);
        for wanted in [On, Off, Both] {
            assert_eq!(orders(wanted, stream, false), strict, "{wanted:?}");
            assert_eq!(orders(wanted, write, true), strict, "{wanted:?}");
            assert_eq!(orders(wanted, send, true), strict, "{wanted:?}");
        }
    }

    #[test]
    fn matrix_cell() {
        let task = task(Depth::Default, &[], true);
        let most = 64 << 20;
        let cell = [
            TestCase::Verify(Transport::Rc, Kind::Write, most),
            TestCase::Stream(Kind::Write, most),
        ];
        assert_eq!(test_cases_of(&task, PLAIN), cell);
    }

    #[test]
    fn purpose_of_test_cases() {
        let summary = |test_case: TestCase| {
            let purpose = test_case.purpose(Transport::Rc, 2, Settings::default(), false);
            (purpose.transport, purpose.pairs, purpose.kind, purpose.traffic)
        };
        for (test_case, expected) in [
            (TestCase::Stream(Kind::Write, 8), (Transport::Rc, 2, Kind::Write, Traffic::OneWay)),
            (TestCase::Both(8), (Transport::Rc, 2, Kind::Write, Traffic::BothWays)),
            (TestCase::Rate(8), (Transport::Rc, 4, Kind::Write, Traffic::OneWay)),
            (TestCase::PingPong(Kind::Send, 8), (Transport::Rc, 1, Kind::Send, Traffic::BothWays)),
            (TestCase::PingPong(Kind::Read, 8), (Transport::Rc, 1, Kind::Read, Traffic::OneWay)),
            (TestCase::Staged(8), (Transport::Rc, 1, Kind::Send, Traffic::Staged)),
            (
                TestCase::Verify(Transport::Uc, Kind::Send, 8),
                (Transport::Uc, 1, Kind::Send, Traffic::OneWay),
            ),
        ] {
            assert_eq!(summary(test_case), expected, "{test_case:?}");
        }
    }
}
