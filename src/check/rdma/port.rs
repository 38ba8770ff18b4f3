//! rdma.port: ports that are up, and addresses by which others reach them.

use super::{CLASS, each_card};
use crate::check::{Ctx, Judgement};
use crate::model::{Fact, GidReach, RdmaDevice, RdmaGid, RdmaPort, VerbsOutcome, VerbsTrial};

/// The kind of an address that is routed.
const ROCE_V2: &str = "RoCE v2";

/// Each port of each NIC; and the machine, where none is up.
pub fn port(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let mut up = 0;
    let mut down = Vec::new();
    let mut judgements = each_card(ctx, |nic| match &nic.ports {
        Fact::Known(ports) => ports.iter().map(|port| judge(ctx, nic, port)).collect(),
        Fact::Unknown(why) => vec![Judgement::unknown(
            &nic.name,
            *why,
            &format!("{CLASS}/{}/ports", nic.name),
        )],
    });
    for nic in super::cards(ctx.facts) {
        for port in nic.ports.known().into_iter().flatten() {
            match &port.state {
                Fact::Known(state) if state == "ACTIVE" => up += 1,
                Fact::Known(state) => down.push(format!("{} {state}", subject(nic, port))),
                // It may be up.
                Fact::Unknown(_) => up += 1,
            }
        }
    }
    if up == 0 && !down.is_empty() {
        let broken = Judgement::broken("machine", "No port of any NIC is active: nothing can be transferred.");
        let broken = broken.evidence(format!("{CLASS}/*/ports/*/state"), down.join(", "));
        judgements.push(broken.advice("ip link set INTERFACE up; ibstat; check cable, switch and subnet manager"));
    }
    judgements
}

/// A port by its device's name; with its number where there are several.
fn subject(nic: &RdmaDevice, port: &RdmaPort) -> String {
    match nic.ports.known().map_or(0, Vec::len) {
        0 | 1 => nic.name.clone(),
        _ => format!("{}/{}", nic.name, port.number),
    }
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice, port: &RdmaPort) -> Judgement {
    let subject = subject(nic, port);
    let path = format!("{CLASS}/{}/ports/{}", nic.name, port.number);
    let state = match &port.state {
        Fact::Known(state) => state,
        Fact::Unknown(why) => return Judgement::unknown(subject, *why, &format!("{path}/state")),
    };
    let layer = port.link_layer.known().map_or("", String::as_str);
    let linked = matches!(&port.physical_state, Fact::Known(state) if state == "LinkUp");
    let judgement = match (state.as_str(), layer) {
        ("ACTIVE", "Ethernet") => ethernet(ctx, subject, &path, &port.gids),
        ("ACTIVE", _) => Judgement::pass(subject, "The port is active."),
        ("INIT", "InfiniBand") if linked => Judgement::broken(
            subject,
            "The link is up, and no subnet manager has configured the port: it stays in INIT.",
        )
        .advice("start a subnet manager (opensm) on this fabric, or ask for the one that should serve it"),
        (state, _) => Judgement::info(subject, format!("The port is {state}.")),
    };
    let mut judgement = judgement.evidence(format!("{path}/state"), state);
    if let Fact::Known(rate) = &port.rate {
        judgement = judgement.evidence(format!("{path}/rate"), rate);
    }
    match payload(ctx, nic, port) {
        Some(mtu) if state == "ACTIVE" => judgement.evidence("ibv_query_port: active_mtu", format!("{mtu} bytes")),
        _ => judgement,
    }
}

/// The payload of a packet, which sysfs does not show and an open device does.
fn payload(ctx: &Ctx<'_>, nic: &RdmaDevice, port: &RdmaPort) -> Option<u32> {
    let Fact::Known(VerbsOutcome::Read(verbs)) = &ctx.facts.verbs else {
        return None;
    };
    let VerbsTrial::Opened(device) = verbs.trials.as_ref()?.get(&nic.name)? else {
        return None;
    };
    let tried = device
        .ports
        .iter()
        .find(|tried| u32::from(tried.number) == port.number)?;
    tried.active_mtu
}

fn ethernet(ctx: &Ctx<'_>, subject: String, path: &str, gids: &Fact<Vec<RdmaGid>>) -> Judgement {
    let gids = match gids {
        Fact::Known(gids) => gids,
        Fact::Unknown(why) => return Judgement::unknown(subject, *why, &format!("{path}/gids")),
    };
    let table = gids.iter().map(describe).collect::<Vec<_>>().join("; ");
    let table = if table.is_empty() { "empty".to_owned() } else { table };
    if let Some(why) = gids.iter().find_map(|gid| gid.kind.why().or(gid.here.why())) {
        return Judgement::unknown(subject, why, &format!("{path}/gid_attrs"));
    }
    let usable: Vec<&RdmaGid> = gids.iter().filter(|gid| is_usable(gid)).collect();
    let judgement = match usable.first() {
        Some(first) => match wrong_index(ctx, gids) {
            Some((variable, message)) => Judgement::broken(subject, message)
                .evidence(variable, "set")
                .advice(format!("export {variable}={}, or unset it", first.index)),
            None => Judgement::pass(subject, reached(first)),
        },
        None => unreachable(subject, gids),
    };
    judgement.evidence(format!("{path}/gids"), table)
}

fn is_v2(gid: &RdmaGid) -> bool {
    matches!(&gid.kind, Fact::Known(kind) if kind == ROCE_V2)
}

/// A routed address in this namespace.
fn is_usable(gid: &RdmaGid) -> bool {
    is_v2(gid) && gid.reach != GidReach::LinkLocal && gid.here == Fact::Known(true)
}

fn reached(gid: &RdmaGid) -> String {
    let interface = gid.interface.present().map_or("?", String::as_str);
    let over = match gid.reach {
        GidReach::Ipv4 => "IPv4",
        _ => "IPv6",
    };
    let mtu = match gid.mtu {
        // A packet's headers take up to 96 bytes of the interface's MTU (rdma/ib_addr.h, iboe_get_mtu).
        Fact::Known(Some(mtu)) if mtu < 4096 + 96 => {
            format!(" Its MTU of {mtu} keeps packets below 4096 bytes; 4200 or more does not.")
        }
        _ => String::new(),
    };
    format!(
        "The port is active; GID index {} is {ROCE_V2} over {over}, on {interface}.{mtu}",
        gid.index
    )
}

fn unreachable(subject: String, gids: &[RdmaGid]) -> Judgement {
    let elsewhere = gids
        .iter()
        .find(|gid| is_v2(gid) && gid.reach != GidReach::LinkLocal && gid.here == Fact::Known(false));
    match elsewhere {
        Some(gid) => {
            let interface = gid.interface.present().map_or("its interface", String::as_str);
            Judgement::broken(
                subject,
                format!("Its {ROCE_V2} addresses belong to {interface}, which is not in this network namespace."),
            )
            .advice("give the container the interface, too (a macvlan, or an SR-IOV function with its own), or host networking")
        }
        None => Judgement::broken(
            subject,
            format!(
                "The port is active and has no {ROCE_V2} address beyond its own segment: only peers there can reach it."
            ),
        )
        .advice("ip address add ADDRESS/PREFIX dev INTERFACE, for the interface of this port"),
    }
}

/// An index variable that names an entry which does not serve, and what is wrong with it.
fn wrong_index(ctx: &Ctx<'_>, gids: &[RdmaGid]) -> Option<(&'static str, String)> {
    chosen(ctx).find_map(|(variable, index)| {
        let fault = match gids.iter().find(|gid| gid.index == index) {
            None => "is empty".to_owned(),
            Some(gid) if !is_v2(gid) => "is not RoCE v2".to_owned(),
            Some(gid) if gid.here != Fact::Known(true) => "is of an interface in another namespace".to_owned(),
            Some(_) => return None,
        };
        Some((variable, format!("{variable} names GID index {index}, which {fault}.")))
    })
}

/// The indices that environment variables name; a negative one leaves the choice to the program.
fn chosen<'a>(ctx: &'a Ctx<'_>) -> impl Iterator<Item = (&'static str, u32)> + 'a {
    let variables = ["NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX"];
    variables
        .into_iter()
        .filter_map(|name| Some((name, value(ctx, name)?.trim().parse().ok()?)))
}

fn value<'a>(_ctx: &'a Ctx<'_>, _name: &str) -> Option<&'a String> {
    None
}

/// An entry in a few words: `3 RoCE v2 IPv4 eth0`.
fn describe(gid: &RdmaGid) -> String {
    let kind = gid.kind.known().map_or("?", String::as_str);
    let reach = match gid.reach {
        GidReach::LinkLocal => "link-local",
        GidReach::Ipv4 => "IPv4",
        GidReach::Ipv6 => "IPv6",
    };
    let interface = gid.interface.present().map_or("", String::as_str);
    let elsewhere = if gid.here == Fact::Known(false) {
        " (not here)"
    } else {
        ""
    };
    format!("{} {kind} {reach} {interface}{elsewhere}", gid.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, findings, machine, only};
    use crate::model::{Facts, Outcome, VerbsDevice, VerbsPort, Why};

    fn known(text: &str) -> Fact<String> {
        Fact::Known(text.to_owned())
    }

    fn gid(index: u32, reach: GidReach, kind: &str, here: bool) -> RdmaGid {
        RdmaGid {
            index,
            reach,
            kind: known(kind),
            interface: Fact::Known(Some("eth0".to_owned())),
            here: Fact::Known(here),
            mtu: Fact::Known(here.then_some(9000)),
        }
    }

    fn port_mut(facts: &mut Facts) -> &mut RdmaPort {
        match &mut facts.nic_mut().ports {
            Fact::Known(ports) => &mut ports[0],
            Fact::Unknown(_) => panic!("no ports"),
        }
    }

    fn roce(gids: Vec<RdmaGid>) -> Facts {
        let mut facts = machine();
        let port = port_mut(&mut facts);
        port.link_layer = known("Ethernet");
        port.gids = Fact::Known(gids);
        facts
    }

    fn link_local() -> Vec<RdmaGid> {
        vec![
            gid(0, GidReach::LinkLocal, "IB/RoCE v1", true),
            gid(1, GidReach::LinkLocal, ROCE_V2, true),
        ]
    }

    #[test]
    fn roce_wants_an_address_that_others_reach() {
        let mut gids = link_local();
        gids.push(gid(2, GidReach::Ipv4, "IB/RoCE v1", true));
        gids.push(gid(3, GidReach::Ipv4, ROCE_V2, true));
        let found = only("rdma.port", &roce(gids.clone()));
        assert_eq!(found.outcome, Outcome::Pass);
        assert_eq!(
            found.message,
            "The port is active; GID index 3 is RoCE v2 over IPv4, on eth0."
        );
        gids[3].mtu = Fact::Known(Some(1500));
        assert!(
            only("rdma.port", &roce(gids))
                .message
                .ends_with("4200 or more does not.")
        );
        let found = only("rdma.port", &roce(link_local()));
        assert_eq!(found.outcome, Outcome::Warn);
        assert!(found.message.contains("its own segment"));
        assert_eq!(only("rdma.port", &roce(Vec::new())).outcome, Outcome::Warn);
    }

    #[test]
    fn an_address_in_another_namespace_is_of_no_use_here() {
        let found = only("rdma.port", &roce(vec![gid(3, GidReach::Ipv6, ROCE_V2, false)]));
        assert_eq!(found.outcome, Outcome::Warn);
        assert!(
            found
                .message
                .contains("belong to eth0, which is not in this network namespace")
        );
        let mut unknown = gid(3, GidReach::Ipv6, ROCE_V2, true);
        unknown.here = Fact::Unknown(Why::Denied);
        assert_eq!(only("rdma.port", &roce(vec![unknown])).outcome, Outcome::Unknown);
    }

    #[test]
    fn a_port_that_is_down_is_no_fault_while_another_is_up() {
        let mut facts = machine();
        assert_eq!(only("rdma.port", &facts).outcome, Outcome::Pass);
        port_mut(&mut facts).state = known("DOWN");
        let found = findings("rdma.port", &facts, &[]);
        let said: Vec<_> = found.iter().map(|f| (f.subject.as_str(), f.outcome)).collect();
        assert_eq!(said, [("mlx5_0", Outcome::Info), ("machine", Outcome::Warn)]);
        if let Fact::Known(ports) = &mut facts.nic_mut().ports {
            let up = RdmaPort {
                number: 2,
                state: known("ACTIVE"),
                ..ports[0].clone()
            };
            ports.push(up);
        }
        let found = findings("rdma.port", &facts, &[]);
        let said: Vec<_> = found.iter().map(|f| (f.subject.as_str(), f.outcome)).collect();
        assert_eq!(said, [("mlx5_0/1", Outcome::Info), ("mlx5_0/2", Outcome::Pass)]);
    }

    #[test]
    fn infiniband_without_a_subnet_manager_stays_in_init() {
        let mut facts = machine();
        port_mut(&mut facts).state = known("INIT");
        let found = findings("rdma.port", &facts, &[]);
        assert!(found[0].outcome == Outcome::Warn && found[0].message.contains("subnet manager"));
        port_mut(&mut facts).state = Fact::Unknown(Why::Denied);
        assert_eq!(only("rdma.port", &facts).outcome, Outcome::Unknown);
    }

    #[test]
    fn the_payload_that_an_open_device_tells_is_evidence() {
        let mut facts = machine();
        let opened = VerbsTrial::Opened(VerbsDevice {
            ports: vec![VerbsPort {
                number: 1,
                active_mtu: Some(4096),
                largest_mtu: Some(4096),
            }],
            ..VerbsDevice::default()
        });
        if let Fact::Known(VerbsOutcome::Read(verbs)) = &mut facts.verbs {
            verbs.trials = Some([("mlx5_0".to_owned(), opened)].into());
        }
        let evidence = only("rdma.port", &facts).evidence;
        assert!(evidence.iter().any(|e| e.value == "4096 bytes"), "{evidence:?}");
    }
}
