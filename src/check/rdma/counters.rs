//! rdma.counters: errors that the transport hides. A rise between two readings is judged; errors since the last reset are noted,
//! because nothing shows when they happened.

use std::collections::BTreeMap;

use super::{CLASS, each_port, interfaces, subject};
use crate::check::roles::Roles;
use crate::check::{Check, Ctx, Judgement, Source, words};
use crate::model::{
    ActionClass, Area, CounterGrowth, Fact, RdmaDevice, RdmaPort, Severity, Why, counter, is_flap,
    is_high, span,
};

pub const CHECK: Check = Check {
    id: "rdma.counters",
    rule: "With --live or --baseline: no counter of errors of an active port rises between two readings; over a long \
        time, fewer than 10 errors an hour are noted only. Errors since the counters were reset are noted, not judged.",
    sources: "/sys/class/infiniband/*/ports/*/counters and hw_counters, statistics of the port's network \
        interfaces (ethtool -S); under --live twice, 2 s apart",
    severity: Severity::Warn,
    why: "The transport of RDMA repeats lost packets in hardware, so a lossy or congested network shows \
        as a lower speed and nowhere else but in these counters. They count since the driver was \
        loaded, so only a rise says that something is wrong now.",
    remedy: "See the meaning and the usual cause of each counter in the finding. gdr probe rdma shows \
        which counters rise during its own traffic, at both ends.",
    action: ActionClass::ReseatCable.drained("https://enterprise-support.nvidia.com/s/article/understanding-mlx5-linux-counters-and-status-parameters").then(ActionClass::CallVendor),
    references: &[
        "https://docs.kernel.org/admin-guide/abi-stable.html",
        "https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html",
        "https://enterprise-support.nvidia.com/s/article/understanding-mlx5-linux-counters-and-status-parameters",
    ],
    reads: &[Source::Network],
    judge: counters,
    ..Check::DEFAULT
};

/// One judgement for each port.
fn counters(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let roles = Roles::new(ctx);
    each_port(ctx, |nic, port| roles.weighed(&nic.name, judge(ctx, nic, port)))
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice, port: &RdmaPort) -> Judgement {
    let subject = subject(nic, port);
    let path = format!("{CLASS}/{}/ports/{}", nic.name, port.number);
    match &port.state {
        Fact::Known(state) if state == "ACTIVE" => {}
        Fact::Known(state) => return Judgement::skip(subject, format!("The port is {state}.")),
        Fact::Unknown(why) => {
            return Judgement::unknown(subject, *why, Area::Sys, &format!("{path}/state"));
        }
    }
    // A guest does not see the physical function: the counters of the virtual one are judged there.
    if nic.physical_function.present().is_some() {
        let message =
            "A virtual function: the counters of its physical function count its packets too.";
        return Judgement::skip(subject, message);
    }
    let of_port = match &port.counters {
        Fact::Known(Some(counters)) => counters,
        Fact::Known(None) => {
            return Judgement::undetermined(
                subject,
                "No counter of errors: the driver has none for this port, so a loss that the transport hides would not show.",
            )
            .evidence(format!("{path}/hw_counters"), "no known counter")
            .needs("a driver with hw_counters");
        }
        Fact::Unknown(why) => {
            let source = format!("{path}/counters");
            return Judgement::unknown(subject, *why, Area::Sys, &source);
        }
    };
    let mut sources = vec![(path.clone(), of_port)];
    for (name, interface) in interfaces(ctx, nic, port) {
        if let Some(counters) = interface.counters.present() {
            sources.push((format!("ethtool -S {name}"), counters));
        }
    }
    let growth = match &ctx.facts.network {
        Fact::Known(network) => network.growth.as_ref(),
        // Nothing was asked.
        Fact::Unknown(Why::NotCovered) => None,
        Fact::Unknown(why) => {
            let source = "the counters of network interfaces (netlink, ethtool)";
            return Judgement::unknown(subject, *why, Area::Sys, source);
        }
    };
    if let Some(rises) = growth.and_then(|growth| rises(ctx, nic, port, growth)) {
        return rises;
    }
    since_reset(subject, &sources)
}

/// The judgement of what rose; `None` if the port was not read twice.
fn rises(
    ctx: &Ctx<'_>,
    nic: &RdmaDevice,
    port: &RdmaPort,
    growth: &CounterGrowth,
) -> Option<Judgement> {
    let name = format!("{}:{}", nic.name, port.number);
    growth.rises.get(&name)?;
    let own = std::iter::once(&name).chain(interfaces(ctx, nic, port).map(|(name, _)| name));
    let rises: Vec<(&String, &String, u64)> = own
        .filter_map(|of| Some((of, growth.rises.get(of)?)))
        .flat_map(|(of, rises)| rises.iter().map(move |(name, rise)| (of, name, *rise)))
        .collect();
    let (faults, others): (Vec<_>, Vec<_>) =
        rises.into_iter().partition(|(_, name, rise)| is_high(name, *rise, growth.seconds));
    let (subject, within) = (subject(nic, port), span(growth.seconds));
    let is_rare = others
        .iter()
        .any(|(_, name, _)| counter(name).is_some_and(|counter| counter.kind.is_fault()));
    if let (true, Some(interface)) = (faults.is_empty(), without_port(ctx, growth)) {
        let source = format!("the port of the network interface {interface}, whose counters rose");
        return Some(Judgement::unknown(subject, Why::NotCovered, Area::Sys, &source));
    }
    let listed = |rises: &[(&String, &String, u64)]| {
        words::list(rises.iter().map(|(_, name, rise)| format!("{name} +{rise}")))
    };
    let mut judgement = match (faults.is_empty(), others.is_empty()) {
        (false, _) => {
            let meanings = faults.iter().filter_map(|(_, name, _)| counter(name));
            let meanings: Vec<String> =
                meanings.map(|counter| format!("{}: {}", counter.name, counter.meaning)).collect();
            let message =
                format!("Errors rose within {within}: {}. {}", listed(&faults), meanings.join(" "));
            advised(Judgement::broken(subject, message), faults.iter().map(|(_, name, _)| *name))
        }
        (true, false) if is_rare => Judgement::info(
            subject,
            format!("Errors were rare within {within}: {}.", listed(&others)),
        ),
        (true, false) => Judgement::info(
            subject,
            format!("No error rose within {within}, but signs of congestion: {}.", listed(&others)),
        ),
        (true, true) => {
            Judgement::pass(subject, format!("No counter of errors rose within {within}."))
        }
    };
    for (of, name, rise) in faults.iter().chain(&others) {
        judgement = judgement.evidence(format!("{of} {name}"), format!("+{rise} in {within}"));
    }
    if faults.is_empty() && others.is_empty() {
        judgement = judgement.evidence(name, "no rise");
    }
    Some(judgement)
}

/// An interface with counters that rose and an unknown port. Names of interfaces have no colon, those of ports have one.
fn without_port<'a>(ctx: &Ctx<'_>, growth: &'a CounterGrowth) -> Option<&'a String> {
    let interfaces = ctx.facts.network.known().map(|network| &network.interfaces)?;
    let has_port =
        |name: &str| interfaces.get(name).is_some_and(|interface| !interface.port.is_empty());
    let rises = growth.rises.iter().filter(|(_, rises)| !rises.is_empty());
    rises.map(|(of, _)| of).find(|of| !of.contains(':') && !has_port(of))
}

/// The causes of these counters, each once.
fn advised<'a>(judgement: Judgement, names: impl Iterator<Item = &'a String>) -> Judgement {
    let mut causes: Vec<&str> = Vec::new();
    for known in names.filter_map(|name| counter(name)) {
        if !causes.contains(&known.cause) {
            causes.push(known.cause);
        }
    }
    causes.into_iter().fold(judgement, Judgement::advice)
}

/// The judgement of one reading.
fn since_reset(subject: String, sources: &[(String, &BTreeMap<String, u64>)]) -> Judgement {
    let all = sources
        .iter()
        .flat_map(|(source, counters)| counters.iter().map(move |counter| (source, counter)));
    let errors: Vec<(&String, &String, u64)> = all
        .filter(|(_, (name, _))| {
            counter(name).is_some_and(|counter| counter.kind.is_fault()) && !is_flap(name)
        })
        .map(|(source, (name, count))| (source, name, *count))
        .collect();
    if errors.is_empty() {
        let judgement = Judgement::pass(
            subject,
            "No error of this port was counted since its counters were reset.",
        );
        return sources
            .iter()
            .fold(judgement, |judgement, (source, _)| judgement.evidence(source, "no errors"));
    }
    let listed = words::list(errors.iter().map(|(_, name, count)| format!("{name} {count}")));
    let message = format!(
        "Errors since the counters were reset: {listed}. They do not show when; gdr doctor --live shows whether they still rise."
    );
    let judgement =
        advised(Judgement::info(subject, message), errors.iter().map(|(_, name, _)| *name));
    errors.iter().fold(judgement, |judgement, (source, name, count)| {
        judgement.evidence(format!("{source}: {name}"), count.to_string())
    })
}
