//! rdma.lossless: flow control by priority, and the priority in which RoCE packets travel.

use super::{CLASS, each_port, interfaces, subject};
use crate::check::roles::Roles;
use crate::check::{Check, Ctx, Judgement, Source, words};
use crate::model::{
    ActionClass, Area, Fact, NetworkInterface, Priorities, RdmaDevice, RdmaGid, RdmaPort, Severity,
    Why,
};

/// Variables with the traffic class of a program's packets.
const VARIABLES: [&str; 2] = ["NCCL_IB_TC", "UCX_IB_TRAFFIC_CLASS"];

pub const CHECK: Check = Check {
    id: "rdma.lossless",
    rule: "Where priorities have flow control (PFC), RoCE packets travel in one of them, and DCQCN is on \
        for it; flow control is by priority or for the whole link, not both.",
    sources: "PFC, DSCP table and pause frames by netlink and ethtool; NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS; \
        tc/*/traffic_class and ecn/roce_np, ecn/roce_rp of MLNX_OFED; default_roce_tos of the kernel",
    severity: Severity::Warn,
    why: "A NIC sorts packets into priorities by their DSCP or VLAN tag. If RoCE packets carry another one \
        than the lossless priority's, switches drop them under load although PFC is set up, and \
        RDMA repeats whole windows.",
    remedy: "Give programs the traffic class whose DSCP belongs to the lossless priority (NCCL_IB_TC, \
        UCX_IB_TRAFFIC_CLASS, --traffic-class of gdr probe rdma): 4 times the DSCP. Let the NIC trust \
        the DSCP (dcb app replace dev INTERFACE dscp-prio 26:3, or mlnx_qos --trust dscp), and set up \
        the switches in the same way.",
    action: ActionClass::Configure.running("https://man7.org/linux/man-pages/man8/dcb-pfc.8.html"),
    references: &[
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        "https://man7.org/linux/man-pages/man8/dcb-pfc.8.html",
        "https://man7.org/linux/man-pages/man8/dcb-app.8.html",
        "https://docs.nvidia.com/networking/display/MLNXOFEDv497100LTS/Explicit+Congestion+Notification+%28ECN%29",
        "https://docs.kernel.org/admin-guide/abi-testing.html",
    ],
    reads: &[Source::Network],
    judge: lossless,
    ..Check::DEFAULT
};

/// One judgement for each port.
fn lossless(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let roles = Roles::new(ctx);
    each_port(ctx, |nic, port| roles.weighed(&nic.name, judge(ctx, nic, port)))
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice, port: &RdmaPort) -> Judgement {
    let subject = subject(nic, port);
    let path = format!("{CLASS}/{}/ports/{}", nic.name, port.number);
    match (&port.state, &port.link_layer) {
        (Fact::Unknown(why), _) => {
            return Judgement::unknown(subject, *why, Area::Sys, &format!("{path}/state"));
        }
        (_, Fact::Unknown(why)) => {
            return Judgement::unknown(subject, *why, Area::Sys, &format!("{path}/link_layer"));
        }
        (_, Fact::Known(layer)) if layer == "InfiniBand" => {
            let message =
                format!("The link layer is {layer}, whose links are lossless by themselves.");
            return Judgement::skip(subject, message);
        }
        // The kernel has no name for EFA's.
        (_, Fact::Known(layer)) if layer != "Ethernet" => {
            let message = format!(
                "The link layer is {layer}: its packets are not RoCE, and need no lossless priority."
            );
            return Judgement::skip(subject, message);
        }
        (Fact::Known(state), _) if state != "ACTIVE" => {
            return Judgement::skip(subject, format!("The port is {state}."));
        }
        _ if ctx.facts.virtual_function(nic).is_some() => {
            let message = "A virtual function: its physical function has the settings.";
            return Judgement::skip(subject, message);
        }
        _ => {}
    }
    if let Fact::Unknown(why) = ctx.facts.network {
        return Judgement::unknown(subject, why, Area::Sys, "priorities of the network interface");
    }
    let found: Vec<_> = interfaces(ctx, nic, port).collect();
    let with_priorities = found
        .iter()
        .find_map(|(name, interface)| Some((*name, *interface, interface.priorities.present()?)));
    let Some((name, interface, priorities)) = with_priorities else {
        let why = found.iter().find_map(|(_, interface)| interface.priorities.why());
        return unread(subject, why, &words::list(found.iter().map(|(name, _)| *name)));
    };
    let class = Class::of(ctx, port);
    let judgement = Port {
        subject,
        interface: name,
        of: interface,
        port,
        priorities,
        // A VLAN's packets carry a priority of its own.
        has_vlan: has_vlan(port),
    }
    .judge(&class);
    judgement.evidence(class.source, class.value.to_string())
}

fn unread(subject: String, why: Option<Why>, interfaces: &str) -> Judgement {
    let source = if interfaces.is_empty() {
        "the port's network interface".to_owned()
    } else {
        format!("the priorities of {interfaces}")
    };
    match why {
        Some(why) => Judgement::unknown(subject, why, Area::Sys, &source),
        None => Judgement::undetermined(
            subject,
            "Treatment of priorities unknown: the driver does not show it, so whether RoCE travels without loss cannot be determined.",
        )
        .evidence(format!("DCB of {source}"), "not supported")
        .needs("a driver with DCB (dcb pfc show dev INTERFACE), or the vendor's tool"),
    }
}

/// `None` if an interface that may be a VLAN's is unknown.
fn has_vlan(port: &RdmaPort) -> Option<bool> {
    let gids = port.gids.known()?;
    let is_vlan = |name: &String| name.contains('.') || name.starts_with("vlan");
    if gids.iter().filter_map(|gid| gid.interface.present()).any(is_vlan) {
        return Some(true);
    }
    let is_known = |gid: &RdmaGid| gid.interface.known().is_some();
    gids.iter().all(is_known).then_some(false)
}

/// The traffic class of RoCE packets, and who chose it.
struct Class {
    value: u8,
    source: String,
    /// False if nothing sets one, so that programs may still do.
    is_chosen: bool,
}

impl Class {
    fn of(ctx: &Ctx<'_>, port: &RdmaPort) -> Self {
        // The driver's own goes before what programs choose.
        if let Some(value) = port.roce.traffic_class.present() {
            return Self {
                value: *value,
                source: format!("{CLASS}/*/tc/{}/traffic_class", port.number),
                is_chosen: true,
            };
        }
        let variables = ctx.facts.environment.known();
        let chosen = VARIABLES.iter().find_map(|name| {
            let value = variables?.get(*name)?.trim().parse().ok()?;
            Some((*name, value))
        });
        let of_manager = port.roce.manager_class.present();
        match (chosen, of_manager) {
            (Some((name, value)), _) => Self { value, source: name.to_owned(), is_chosen: true },
            (None, Some(value)) => Self {
                value: *value,
                source: "default_roce_tos (connection manager)".to_owned(),
                is_chosen: true,
            },
            (None, None) => Self {
                value: 0,
                source: "traffic class without NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS and a default"
                    .to_owned(),
                is_chosen: false,
            },
        }
    }

    /// The upper six bits of the IP header's field.
    fn dscp(&self) -> u8 {
        self.value >> 2
    }
}

/// A port with settings.
struct Port<'a> {
    subject: String,
    interface: &'a str,
    of: &'a NetworkInterface,
    port: &'a RdmaPort,
    priorities: &'a Priorities,
    has_vlan: Option<bool>,
}

impl Port<'_> {
    fn judge(self, class: &Class) -> Judgement {
        let Some(pfc) = &self.priorities.pfc else {
            return Judgement::undetermined(
                self.subject.clone(),
                "Flow control of priorities unknown: the driver does not show it.",
            )
            .evidence(format!("dcb pfc show dev {}", self.interface), "no answer")
            .needs("the vendor's tool, as in mlnx_qos -i INTERFACE");
        };
        if let Fact::Unknown(why) = self.of.pause {
            let source = format!("the pause frames of {}", self.interface);
            return Judgement::unknown(self.subject, why, Area::Sys, &source);
        }
        let pause = self.of.pause.present();
        let is_paused = pause.is_some_and(|pause| pause.receives || pause.sends);
        let judgement = match (pfc.is_empty(), is_paused) {
            (true, true) => Judgement::pass(
                self.subject.clone(),
                "Pause frames stop the whole link, whatever the priority.",
            ),
            (true, false) => self.without_flow_control(),
            (false, true) => Judgement::broken(
                self.subject.clone(),
                format!(
                    "Both flow control by priority ({}) and pause frames for the whole link are on: one that stops the link defeats the other.",
                    listed(pfc)
                ),
            )
            .advice(format!(
                "Turn pause frames off: ethtool -A {} rx off tx off.",
                self.interface
            )),
            (false, false) => self.in_priority(pfc, class),
        };
        let judgement = judgement.evidence(
            format!("PFC of {}", self.interface),
            if pfc.is_empty() { "none".to_owned() } else { listed(pfc) },
        );
        let trust = if self.priorities.trusts_dscp { "DSCP" } else { "VLAN tag" };
        let judgement = judgement.evidence(format!("trust of {}", self.interface), trust);
        match self.port.roce.notification_dscp.present() {
            Some(dscp) => judgement.evidence("cc_params/np_cnp_dscp", dscp.to_string()),
            None => judgement,
        }
    }

    /// Lossy by configuration; DCQCN makes that usable.
    fn without_flow_control(&self) -> Judgement {
        let message = match self.congestion_off(0) {
            Some(off) => format!("No priority has flow control (PFC), and {off}: packets are lost under load."),
            None => "No priority has flow control (PFC): RoCE works, but packets are lost under load unless congestion control keeps queues short.".to_owned(),
        };
        Judgement::info(self.subject.clone(), message)
            .advice("If the switches are set up for a lossless priority, set the same one here, as in dcb pfc set dev INTERFACE prio-pfc 3:on.")
    }

    fn in_priority(&self, pfc: &[u8], class: &Class) -> Judgement {
        let priority = match self.priority(class) {
            Ok(priority) => priority,
            Err(unknown) => return *unknown,
        };
        let path = format!(
            "RoCE packets with traffic class {} (DSCP {}) travel in priority {priority}",
            class.value,
            class.dscp()
        );
        if !pfc.contains(&priority) {
            let message =
                format!("{path}, which has no flow control; priority {} has.", listed(pfc));
            let judgement = if class.is_chosen {
                Judgement::broken(self.subject.clone(), message)
            } else {
                // A job may still choose another class than this process.
                Judgement::info(self.subject.clone(), message)
            };
            return self.advised(judgement, pfc);
        }
        match self.congestion_off(priority) {
            Some(off) => Judgement::broken(self.subject.clone(), format!("{path}, which has flow control, but {off}: congestion spreads by pause frames."))
                .weighing(Severity::Info)
                .advice(format!("Turn it on: write 1 to /sys/class/net/{0}/ecn/roce_np/enable/{priority} and ecn/roce_rp/enable/{priority}.", self.interface)),
            None => Judgement::pass(self.subject.clone(), format!("{path}, which has flow control.")),
        }
    }

    /// The priority of packets of a traffic class.
    fn priority(&self, class: &Class) -> Result<u8, Box<Judgement>> {
        let unknown = |message: String, source: &str, value: &str, needs: &str| {
            let judgement = Judgement::undetermined(self.subject.clone(), message);
            let source = format!("{source} {}", self.interface);
            Box::new(judgement.evidence(source, value).needs(needs))
        };
        match (self.priorities.trusts_dscp, self.has_vlan) {
            (true, _) => {
                let dscp = class.dscp();
                self.priorities.dscp.get(&dscp).copied().ok_or_else(|| {
                    unknown(
                        format!("No priority for DSCP {dscp} in the NIC's table."),
                        "dcb app show dev",
                        "no entry",
                        "an entry for it (dcb app add dev INTERFACE dscp-prio DSCP:PRIORITY)",
                    )
                })
            }
            (false, Some(true)) => Err(unknown(
                "Priority from the VLAN tag: each program's service level decides its value."
                    .to_owned(),
                "trust of",
                "VLAN tag",
                "gdr probe rdma with the program's --service-level, which shows the counters of each priority",
            )),
            // Packets without a tag.
            (false, Some(false)) => Ok(0),
            (false, None) => Err(unknown(
                "Priority from the VLAN tag: whether packets have one cannot be determined."
                    .to_owned(),
                "GIDs of",
                "not read",
                "the interfaces of the port's GIDs (/sys/class/infiniband/*/ports/*/gid_attrs/ndevs)",
            )),
        }
    }

    /// What of DCQCN is off for a priority.
    fn congestion_off(&self, priority: u8) -> Option<String> {
        let is_off = |points: &Fact<Option<Vec<u8>>>| {
            points.present().is_some_and(|on| !on.contains(&priority))
        };
        let roce = &self.port.roce;
        let off: Vec<&str> = [(&roce.notifies, "notification"), (&roce.reacts, "reaction")]
            .into_iter()
            .filter(|(points, _)| is_off(points))
            .map(|(_, name)| name)
            .collect();
        (!off.is_empty())
            .then(|| format!("DCQCN's {} is off for priority {priority}", off.join(" and ")))
    }

    /// How to bring packets into a lossless priority.
    fn advised(&self, judgement: Judgement, pfc: &[u8]) -> Judgement {
        let dscp = self.priorities.dscp.iter().filter(|(_, priority)| pfc.contains(priority));
        // 26 is the usual one of RoCE, and in most tables the only one of its priority that anything uses.
        let dscp: Vec<u8> = dscp.map(|(dscp, _)| *dscp).collect();
        let best = dscp.iter().find(|dscp| **dscp == 26).or_else(|| dscp.first());
        match (self.priorities.trusts_dscp, best) {
            (true, Some(dscp)) => judgement.advice(format!(
                "Give programs traffic class {} (DSCP {dscp}), as in NCCL_IB_TC={0} and UCX_IB_TRAFFIC_CLASS={0}.",
                u16::from(*dscp) * 4
            )),
            (true, None) => judgement.advice(format!(
                "Give a DSCP this priority (dcb app add dev {} dscp-prio 26:{}), and programs its traffic class.",
                self.interface,
                pfc.first().unwrap_or(&3)
            )),
            (false, _) => judgement.advice(format!(
                "Let the NIC trust the DSCP (dcb app add dev {} dscp-prio 26:{}, or mlnx_qos -i {0} --trust dscp): packets without a VLAN tag have priority 0.",
                self.interface,
                pfc.first().unwrap_or(&3)
            )),
        }
    }
}

fn listed(priorities: &[u8]) -> String {
    words::list(priorities)
}
