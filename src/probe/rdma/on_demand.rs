//! On-demand paging (ODP) of host memory beside ordinary registration: what both ends offer, the test cases, and what it costs. A registration
//! with ODP pins no page; a NIC that finds none takes a page fault.

use verbs::Transport;

use super::control::Offer;
use super::end::End;
use super::kind::Kind;
use super::paging::Paging;
use super::purpose::{Purpose, Role, Traffic};
use super::task::{Extent, Task};
use super::test_case::{Planned, TestCase};
use crate::model::ProbeResult;
use crate::model::figure::rdma::{self, BANDWIDTH, PAGED, UNPAGED};
use crate::model::figure::validated;

/// The test cases of memory with on-demand paging, and what is left out: names of results, and why.
#[derive(Default)]
pub struct Plan {
    pub planned: Vec<Planned>,
    pub missing: Vec<(String, String)>,
}

/// Each of these ordinary test cases once more, as far as both ends offer it, and the cost of the first touch.
pub fn plan(task: &Task, end: &End, other: &Offer, ordinary: &[Planned]) -> Plan {
    if !task.on_demand || task.extent != Extent::Whole {
        return Plan::default();
    }
    plan_between(&end.on_demand, other.on_demand, ordinary)
}

fn plan_between(
    ours: &Result<Paging, String>,
    theirs: Option<Paging>,
    ordinary: &[Planned],
) -> Plan {
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Some(theirs)) => (*ours, theirs),
        (Err(why), _) => return Plan::without(why.clone()),
        (Ok(_), None) => {
            let why = "the remote end offers no on-demand paging: its NIC has none, or it does not use --memory host";
            return Plan::without(why.to_owned());
        }
    };
    let mut plan = Plan::default();
    let mut first_touch = Vec::new();
    for case in ordinary.iter().filter(|case| is_repeated(case)) {
        match without(case.purpose, ours, theirs) {
            Some(whose) => plan.leave_out(case.purpose.kind, whose),
            None => {
                plan.planned.push(Planned {
                    purpose: Purpose { on_demand: true, ..case.purpose },
                    ..*case
                });
                first_touch.extend(first_touch_of(case));
            }
        }
    }
    // The smallest and the largest message.
    let least = first_touch.first().copied();
    let most = first_touch.last().copied();
    let most = most.filter(|_| most != least);
    plan.planned.extend(least.into_iter().chain(most));
    plan
}

impl Plan {
    fn without(why: String) -> Self {
        Self { planned: Vec::new(), missing: vec![(UNPAGED.to_owned(), why)] }
    }

    /// Leaves out an operation, once for all sizes.
    fn leave_out(&mut self, kind: Kind, whose: &str) {
        let name = if kind.is_atomic() {
            validated(format_args!("rc.{}{PAGED}", kind.name()))
        } else {
            rdma::of_operation(kind.name(), BANDWIDTH, PAGED)
        };
        let why = format!(
            "the {whose} NIC offers no on-demand paging for this operation over RC (ibv_query_device_ex)"
        );
        if !self.missing.iter().any(|(known, _)| *known == name) {
            self.missing.push((name, why));
        }
    }
}

/// Whose NIC offers less than a test case needs.
fn without(purpose: Purpose, ours: Paging, theirs: Paging) -> Option<&'static str> {
    let lacks = |paging: Paging, role: Role| {
        let is_both = purpose.traffic == Traffic::BothWays;
        let roles = [Some(role), is_both.then(|| role.other())];
        let mut roles = roles.into_iter().flatten();
        roles.any(|role| !paging.covers(purpose.kind, role))
    };
    if lacks(ours, Role::Requester) {
        Some("local")
    } else if lacks(theirs, Role::Responder) {
        Some("remote")
    } else {
        None
    }
}

/// The first touch of as many bytes as a latency of writes has.
fn first_touch_of(case: &Planned) -> Option<Planned> {
    let TestCase::PingPong(Kind::Write, bytes) = case.test_case else {
        return None;
    };
    let Purpose { transport, settings, relaxed_ordering, .. } = case.purpose;
    let test_case = TestCase::FirstTouch(bytes);
    Some(Planned {
        test_case,
        purpose: test_case.purpose(transport, 1, settings, relaxed_ordering),
        ..*case
    })
}

/// True for the test cases that on-demand paging repeats: one direction over RC, without immediate data.
fn is_repeated(case: &Planned) -> bool {
    let is_plain = match case.test_case {
        TestCase::Verify(Transport::Rc, kind, _) => !kind.has_immediate(),
        TestCase::PingPong(..) | TestCase::Stream(..) => true,
        _ => false,
    };
    is_plain && case.purpose.transport == Transport::Rc && !case.is_strict_twin
}

/// The results that are compared: name, words, and whether the largest message counts.
const COSTS: [(&str, &str, bool); 6] = [
    (rdma::WRITE_LATENCY.name, "latency of writes", false),
    (rdma::READ_LATENCY.name, "latency of reads", false),
    (rdma::SEND_LATENCY.name, "latency of sends", false),
    (rdma::WRITE.name, "bandwidth of writes", true),
    (rdma::READ.name, "bandwidth of reads", true),
    (rdma::SEND.name, "bandwidth of sends", true),
];

/// What on-demand paging changes, for each subject that was measured with it.
pub fn costs(results: &[ProbeResult]) -> Vec<String> {
    let mut subjects: Vec<&str> = Vec::new();
    for result in results.iter().filter(|r| r.name.ends_with(PAGED)) {
        if result.median.is_some() && !subjects.contains(&result.subject.as_str()) {
            subjects.push(&result.subject);
        }
    }
    let notes = |subject: &str| {
        let of = |name: &str, is_largest: bool| {
            let of_name = results.iter().filter(|result| {
                result.subject == subject && result.name == name && result.median.is_some()
            });
            if is_largest {
                of_name.max_by_key(|result| result.bytes)
            } else {
                of_name.min_by_key(|result| result.bytes)
            }
        };
        let ratio = |(name, words, is_largest): (&str, &str, bool)| {
            let paged = of(&format!("{name}{PAGED}"), is_largest)?;
            let pinned = of(name, is_largest).filter(|result| result.bytes == paged.bytes)?;
            let ratio = paged.median? / pinned.median.filter(|median| *median > 0.0)?;
            Some(format!("{words} of {} bytes {ratio:.2} times", paged.bytes?))
        };
        let ratios: Vec<String> = COSTS.into_iter().filter_map(ratio).collect();
        let compared = (!ratios.is_empty()).then(|| {
            format!("{subject}: on-demand paging instead of pinned pages: {}.", ratios.join(", "))
        });
        let touch = |is_largest| {
            let (first, next) =
                (of(rdma::FIRST_TOUCH.name, is_largest)?, of(rdma::NEXT_TOUCH.name, is_largest)?);
            Some(format!(
                "{subject}: a write of {} bytes into pages that are not there takes {:.1} us, and {:.1} us once they are.",
                first.bytes?, first.median?, next.median?
            ))
        };
        let mut touches: Vec<String> = [false, true].into_iter().filter_map(touch).collect();
        touches.dedup();
        compared.into_iter().chain(touches).collect::<Vec<_>>()
    };
    subjects.into_iter().flat_map(notes).collect()
}
