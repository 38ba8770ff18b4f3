//! rdma.port: port state and GIDs that remote nodes can reach.

use std::collections::BTreeSet;

use super::rails::Rails;
use super::{CLASS, each_port, subject};
use crate::check::roles::Roles;
use crate::check::{Check, CheckAction, Ctx, Hint, Judgement, Rule, Source, words};
use crate::model::{
    ActionClass, Area, Fact, FasterPath, GidReach, Kind, RdmaDevice, RdmaGid, RdmaPort, Severity,
    VerbsOutcome, VerbsPort, VerbsTrial, Verdict, Why,
};
use crate::output::shell_word;

/// The GID type that is routed.
const ROCE_V2: &str = "RoCE v2";

/// Valid path MTUs, in bytes.
const PAYLOADS: [u32; 5] = [256, 512, 1024, 2048, 4096];
/// Path MTU for the usual interface MTU of 1500.
const USUAL: u32 = 1024;
/// Bytes of interface MTU used by packet headers (rdma/ib_addr.h, iboe_get_mtu).
const HEADERS: u32 = 96;

pub const CHECK: Check = Check {
    id: "rdma.port",
    rule: "A port is active; over Ethernet it has a RoCE v2 address that other machines can \
        reach and that is usable in this namespace; its packets have the full size. The MTU \
        is judged on active ports only: below 1024 bytes it warns, below 4096 it is noted. A compute \
        NIC that is down or slow while all others of its kind are not is an error. Of a storage NIC \
        nothing is more than a warning, of a management NIC nothing more than a note: a profile \
        (table roles), a name, the place below a switch with a GPU, the default route, or the way to \
        mounted storage says which one a NIC is.",
    sources: "/sys/class/infiniband/*/ports/*, /sys/class/net; under --live active_mtu and max_mtu of ibv_query_port",
    severity: Severity::Warn,
    why: "A port that is down transfers nothing. Programs address a RoCE peer by an index into \
        the GID table: an index of the wrong type ends in timeouts (status 12, errno 110), one of an interface \
        in another namespace in No such device (errno 19, with MLNX_OFED and DOCA-OFED). A packet has up to 96 bytes of headers, \
        whatever its payload.",
    remedy: "Bring the link up; on InfiniBand start a subnet manager; on Ethernet give the \
        interface an IP address, and set the index variables to a RoCE v2 entry; an \
        interface MTU of 4192 or more, also on switches and peers, allows packets of 4096 \
        bytes.",
    action: ActionClass::ReseatCable
        .drained("https://docs.kernel.org/admin-guide/abi-stable.html")
        .then(ActionClass::Configure),
    references: &[
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        "https://docs.kernel.org/admin-guide/abi-stable.html",
        "https://lore.kernel.org/linux-rdma/ad08f992-7636-44e6-914b-f467fd7ceb61@linux.dev/",
    ],
    explained_by: &["rdma.modules"],
    reads: &[Source::Verbs],
    finds_partner: true,
    hint: Some(Hint {
        cause: "The ports do not reach each other: a port is down, or its GID is not routed.",
        words: "port=5 gid=5 connect=5 perftest=4 timeout=3 completion=2 mlx5=2 rdma=1 nccl=1 failure=1 stall=1 \
            nvshmem=1 kv-transfer=1 container=1 multi-node=1 many-gpus=-1 no-device=-1 gpu-memory=-1 \
            gpudirect=-2 verbs-object=-2 guest=-2 register=-3",
    }),
    judges_ports: true,
    closes: Some(FasterPath::Rdma),
    judge: port,
    ..Check::DEFAULT
};

/// Judges each port of each NIC, and the machine if no port is up.
fn port(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let mut up = 0;
    let mut down = Vec::new();
    let roles = Roles::new(ctx);
    let rails = Rails::new(ctx, &roles);
    let wanted = Wanted::new(ctx);
    let mut judgements = each_port(ctx, |nic, port| {
        let is_wanted = wanted.has(nic) && !roles.is_other(&nic.name);
        let judgement = judge(ctx, nic, port, is_wanted);
        roles.weighed(&nic.name, railed(judgement, &roles, &rails, nic, port))
    });
    // Where only NICs for other traffic are up, GPUs reach nobody.
    let has_others = super::rdma_nics(ctx.facts).any(|nic| !roles.is_other(&nic.name));
    let counted = |nic: &&RdmaDevice| !has_others || !roles.is_other(&nic.name);
    for nic in super::rdma_nics(ctx.facts).filter(counted) {
        for port in nic.ports.known().into_iter().flatten() {
            match &port.state {
                Fact::Known(state) if state == "ACTIVE" => up += 1,
                Fact::Known(state) => down.push(format!("{} {state}", subject(nic, port))),
                Fact::Unknown(_) => up += 1,
            }
        }
    }
    let evidence = (format!("{CLASS}/*/ports/*/state"), down.join(", "));
    if up == 0 && !down.is_empty() && ctx.facts.partial {
        // A NIC that the text does not show may be active.
        let (source, states) = evidence;
        let unknown =
            Judgement::unknown("machine", Why::NotCovered, Area::Sys, "the list of all NICs");
        judgements.push(unknown.evidence(source, states));
    } else if up == 0 && !down.is_empty() {
        let broken = Judgement::broken(
            "machine",
            "No port of any NIC is active: nothing can be transferred.",
        );
        let broken = broken.evidence(evidence.0, evidence.1);
        judgements.push(broken.advice(
            "Bring the interface up (ip link set INTERFACE up); check cable, switch and subnet \
                 manager.",
        ));
    }
    judgements
}

/// A port of a compute NIC that is worse than all others of its kind.
fn railed(
    judgement: Judgement,
    roles: &Roles<'_>,
    rails: &Rails<'_>,
    nic: &RdmaDevice,
    port: &RdmaPort,
) -> Judgement {
    let is_fault = !matches!(judgement.rule, Rule::Broken | Rule::Unknown);
    let fault = rails.fault(nic, port).filter(|_| is_fault);
    let (Some(fault), Some(role)) = (fault, roles.phrase(&nic.name)) else {
        return judgement;
    };
    Judgement {
        rule: Rule::Broken,
        message: format!("{fault} It is {role}."),
        ..judgement.weighing(Severity::Error)
    }
    .advice("Compare cable, transceiver and switch port with those of the others; 'rdma link' and 'mlxlink' show the state of the link.")
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice, port: &RdmaPort, is_wanted: bool) -> Judgement {
    let subject = subject(nic, port);
    let path = format!("{CLASS}/{}/ports/{}", nic.name, port.number);
    let state = match &port.state {
        Fact::Known(state) => state,
        Fact::Unknown(why) => {
            return Judgement::unknown(subject, *why, Area::Sys, &format!("{path}/state"));
        }
    };
    let layer = match &port.link_layer {
        Fact::Known(layer) => layer.as_str(),
        // Only what an active or waiting port needs depends on the layer.
        Fact::Unknown(why) if ["ACTIVE", "INIT"].contains(&state.as_str()) => {
            return Judgement::unknown(subject, *why, Area::Sys, &format!("{path}/link_layer"))
                .evidence(format!("{path}/state"), state);
        }
        Fact::Unknown(_) => "",
    };
    let linked = matches!(&port.physical_state, Fact::Known(state) if state == "LinkUp");
    let verbs = verbs_port(ctx, nic, port);
    let judgement = match (state.as_str(), layer) {
        ("ACTIVE", "Ethernet") => ethernet(ctx, is_wanted, subject, &path, &port.gids, verbs),
        ("ACTIVE", "InfiniBand") => infiniband(subject, verbs),
        ("ACTIVE", _) => Judgement::pass(subject, "The port is active."),
        ("INIT", "InfiniBand") if linked => Judgement::broken(
            subject,
            "Port stays in INIT: the link is up, and no subnet manager has configured the port.",
        )
        .action(ActionClass::RestartService.drained(CHECK.action.source))
        .advice("Start a subnet manager (opensm) on this fabric, or find out why the one of this fabric does not configure the port."),
        (state, _) => Judgement::info(subject, format!("The port is {state}.")),
    };
    let mut judgement = judgement.evidence(format!("{path}/state"), state);
    if let Fact::Known(rate) = &port.rate {
        judgement = judgement.evidence(format!("{path}/rate"), rate);
        let others = ctx.facts.bonded_functions(nic);
        if !others.is_empty() && (state.as_str(), layer) == ("ACTIVE", "Ethernet") {
            let (ports, others) = (others.len() + 1, words::list(others));
            let bond = format!(
                "if bonded with {others}, which has no RDMA device: {ports} times this rate, one port's for each queue pair"
            );
            judgement = judgement.evidence(format!("{path}/rate (RoCE LAG)"), bond);
        }
    }
    match verbs.and_then(|verbs| verbs.active_mtu) {
        // The MTU is meaningless unless the port is active.
        Some(mtu) if state == "ACTIVE" => {
            judgement.evidence("ibv_query_port: active_mtu", format!("{mtu} bytes"))
        }
        _ => judgement,
    }
}

/// Port attributes from an open device, such as the MTU, which sysfs does not show.
fn verbs_port<'a>(ctx: &Ctx<'a>, nic: &RdmaDevice, port: &RdmaPort) -> Option<&'a VerbsPort> {
    let Fact::Known(VerbsOutcome::Read(library)) = &ctx.facts.verbs else {
        return None;
    };
    let VerbsTrial::Opened(device) = library.trials.as_ref()?.get(&nic.name)? else {
        return None;
    };
    let mut ports = device.ports.iter();
    ports.find(|tried| u32::from(tried.number) == port.number)
}

fn infiniband(subject: String, verbs: Option<&VerbsPort>) -> Judgement {
    match verbs.map(|verbs| (verbs.active_mtu, verbs.largest_mtu)) {
        Some((Some(bytes), Some(largest))) if bytes < largest => small(
            subject,
            bytes,
            format!(
                "Packets have {bytes} of {largest} bytes: the port is active, and the other end of the link accepts no more, or the subnet manager set this MTU."
            ),
        )
        .advice("smpquery portinfo, for this port and for the switch's, shows what each supports (MtuCap) and uses (NeighborMTU)."),
        _ => Judgement::pass(subject, "The port is active."),
    }
}

/// Reports a small path MTU; a failure only below the usual one.
fn small(subject: String, bytes: u32, message: String) -> Judgement {
    if bytes < USUAL {
        Judgement::broken(subject, message)
    } else {
        Judgement::info(subject, message)
    }
}

/// The action where the link is up and an address or a setting is wrong.
const CONFIGURE: CheckAction = ActionClass::Configure.running(CHECK.action.source);

fn ethernet(
    ctx: &Ctx<'_>,
    is_wanted: bool,
    subject: String,
    path: &str,
    gids: &Fact<Vec<RdmaGid>>,
    verbs: Option<&VerbsPort>,
) -> Judgement {
    let gids = match gids {
        Fact::Known(gids) => gids,
        Fact::Unknown(why) => {
            return Judgement::unknown(subject, *why, Area::Sys, &format!("{path}/gids"));
        }
    };
    let table = gids.iter().map(describe).collect::<Vec<_>>().join("; ");
    let table = if table.is_empty() { "empty".to_owned() } else { table };
    if let Some(why) = gids.iter().find_map(|gid| gid.kind.why().or(gid.here.why())) {
        return Judgement::unknown(subject, why, Area::Sys, &format!("{path}/gid_attrs"));
    }
    let usable: Vec<&RdmaGid> = gids.iter().filter(|gid| is_usable(gid)).collect();
    let judgement = match usable.first() {
        Some(first) => match wrong_index(ctx, gids) {
            Some((variable, message)) => Judgement::broken(subject, message)
                .evidence(variable, "set")
                .command(format!("export {variable}={}", first.index))
                .action(CONFIGURE)
                .advice("Or unset the variable."),
            None if is_wanted => path_mtu(subject, first, verbs),
            None => Judgement::pass(subject, reached(first)),
        },
        None if is_wanted => unreachable(subject, gids),
        None => Judgement::info(
            subject,
            "The port is active and has no RoCE v2 address that others can reach; every GPU has a nearer NIC.",
        ),
    };
    judgement.evidence(format!("{path}/gids"), table)
}

/// The NICs that need GIDs: the best NICs of the GPUs, or all on a machine without GPUs. A NIC that
/// only serves a bridge or a bond needs none.
struct Wanted<'a>(Option<BTreeSet<&'a str>>);

impl<'a> Wanted<'a> {
    fn new(ctx: &Ctx<'a>) -> Self {
        let topology = ctx.topology;
        if topology.rows_of(Kind::Gpu).next().is_none() {
            return Self(None);
        }
        let of_gpus = || {
            topology.matches.iter().filter(|found| {
                let row = topology.rows.get(found.row);
                row.is_some_and(|row| row.kind == Kind::Gpu)
            })
        };
        if of_gpus().any(|found| found.pick.is_none() && found.verdict == Verdict::Unknown) {
            return Self(None);
        }
        // One with an unknown place may be the nearest.
        let unplaced = |row: usize| {
            let device = topology.device(row);
            device.is_none_or(|device| device.place.known().is_none())
        };
        let nics = topology.rows_of(Kind::Nic).map(|(at, _)| at);
        let best: BTreeSet<usize> = of_gpus()
            .flat_map(|found| found.best.iter().copied())
            .chain(nics.filter(|at| unplaced(*at)))
            .collect();
        let names = best.into_iter().filter_map(|row| Some(topology.rows.get(row)?.label.as_str()));
        Self(Some(names.collect()))
    }

    fn has(&self, nic: &RdmaDevice) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(nic.name.as_str()))
    }
}

fn is_v2(gid: &RdmaGid) -> bool {
    matches!(&gid.kind, Fact::Known(kind) if kind == ROCE_V2)
}

/// True for a routed address in this network namespace.
fn is_usable(gid: &RdmaGid) -> bool {
    is_v2(gid) && gid.reach != GidReach::LinkLocal && gid.here == Fact::Known(true)
}

fn reached(gid: &RdmaGid) -> String {
    let interface = gid.interface.present().map_or("?", String::as_str);
    let over = match gid.reach {
        GidReach::Ipv4 => "IPv4",
        _ => "IPv6",
    };
    format!("The port is active; GID index {} is {ROCE_V2} over {over}, on {interface}.", gid.index)
}

/// A port with a GID: judges its path MTU, from the device or from the interface MTU.
fn path_mtu(subject: String, gid: &RdmaGid, verbs: Option<&VerbsPort>) -> Judgement {
    let [.., most] = PAYLOADS;
    let largest =
        verbs.and_then(|verbs| verbs.largest_mtu).map_or(most, |largest| largest.min(most));
    let fits =
        |mtu: u32| PAYLOADS.into_iter().rev().find(|bytes| bytes + HEADERS <= mtu).unwrap_or(0);
    let active = verbs.and_then(|verbs| verbs.active_mtu);
    if let (Fact::Unknown(why), None) = (&gid.mtu, active) {
        let source = format!(
            "/sys/class/net/{}/mtu",
            gid.interface.present().map_or("INTERFACE", String::as_str)
        );
        return Judgement::unknown(subject, *why, Area::Sys, &source);
    }
    let mtu = gid.mtu.present().copied();
    let allowed = mtu.map_or(largest, |mtu| fits(mtu).min(largest));
    let bytes = active.unwrap_or(allowed);
    let reached = reached(gid);
    let interface = gid.interface.present().map_or("INTERFACE", String::as_str);
    let judgement = match mtu {
        _ if bytes >= largest => return Judgement::pass(subject, reached),
        Some(mtu) if bytes >= allowed => small(
            subject,
            bytes,
            format!(
                "MTU of {mtu} allows packets of {bytes} bytes: an MTU of {} or more allows {largest}. {reached}",
                largest + HEADERS
            ),
        )
        .command(format!(
            "ip link set {} mtu {}",
            shell_word(interface),
            largest + HEADERS
        ))
        .advice("The switch and the peers need that MTU too; 9000 works as well."),
        _ => small(
            subject,
            bytes,
            format!(
                "Packets have {bytes} bytes, fewer than the {allowed} that the port and its interface support. {reached}"
            ),
        ),
    };
    match mtu {
        Some(mtu) => judgement.evidence(format!("/sys/class/net/{interface}/mtu"), mtu.to_string()),
        None => judgement,
    }
}

fn unreachable(subject: String, gids: &[RdmaGid]) -> Judgement {
    let elsewhere = gids.iter().find(|gid| {
        is_v2(gid) && gid.reach != GidReach::LinkLocal && gid.here == Fact::Known(false)
    });
    match elsewhere {
        Some(gid) => {
            let interface = gid.interface.present().map_or("its interface", String::as_str);
            Judgement::broken(
                subject,
                format!("No {ROCE_V2} address here: they belong to {interface}, which is not in this network namespace."),
            )
            .action(CONFIGURE)
            .advice(
                "Pass the interface to the container, too (a macvlan, or an SR-IOV function with its own), or use host networking.",
            )
        }
        None => Judgement::broken(
            subject,
            format!(
                "No routable {ROCE_V2} address: the port is active and has none beyond its own segment, so only peers there can reach it."
            ),
        )
        .action(CONFIGURE)
        .advice(
            "Give the interface of this port an IP address (ip address add ADDRESS/PREFIX dev \
                 INTERFACE).",
        ),
    }
}

/// A GID index variable that names an unusable entry, and the reason.
fn wrong_index(ctx: &Ctx<'_>, gids: &[RdmaGid]) -> Option<(&'static str, String)> {
    chosen(ctx).find_map(|(variable, index)| {
        let fault = match gids.iter().find(|gid| gid.index == index) {
            None => "is empty".to_owned(),
            Some(gid) if !is_v2(gid) => "is not RoCE v2".to_owned(),
            Some(gid) if gid.here != Fact::Known(true) => {
                "belongs to an interface in another namespace".to_owned()
            }
            Some(_) => return None,
        };
        Some((variable, format!("{variable} names GID index {index}, which {fault}.")))
    })
}

/// GID indices from environment variables; a negative index lets the program choose.
fn chosen<'a>(ctx: &'a Ctx<'_>) -> impl Iterator<Item = (&'static str, u32)> + 'a {
    let variables = ["NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX"];
    variables.into_iter().filter_map(|name| Some((name, value(ctx, name)?.trim().parse().ok()?)))
}

fn value<'a>(ctx: &'a Ctx<'_>, name: &str) -> Option<&'a String> {
    ctx.facts.environment.known()?.get(name)
}

/// A GID in short: `3 RoCE v2 IPv4 eth0`.
fn describe(gid: &RdmaGid) -> String {
    let kind = gid.kind.known().map_or("?", String::as_str);
    let reach = match gid.reach {
        GidReach::LinkLocal => "link-local",
        GidReach::Ipv4 => "IPv4",
        GidReach::Ipv6 => "IPv6",
    };
    let interface = gid.interface.present().map_or("", String::as_str);
    let elsewhere = if gid.here == Fact::Known(false) { " (not here)" } else { "" };
    format!("{} {kind} {reach} {interface}{elsewhere}", gid.index)
}

#[cfg(test)]
mod tests;
