//! What each NIC is for, and why: a profile says so, its name, its place beside a GPU, the default route, or a mount. Checks of the network fail
//! for NICs that carry the traffic of GPUs, not for those of storage and management.

use std::collections::BTreeMap;

use super::nics::rdma_nics;
use super::{Ctx, Judgement, Rule};
use crate::model::{Kind, PciClass, RdmaDevice, Severity};
use crate::profile::NicRole;

/// How words of a name begin that say what a NIC is for.
const WORDS: [(&str, NicRole); 9] = [
    ("mgmt", NicRole::Management),
    ("mgt", NicRole::Management),
    ("manage", NicRole::Management),
    ("oob", NicRole::Management),
    ("bmc", NicRole::Management),
    ("stor", NicRole::Storage),
    ("nfs", NicRole::Storage),
    ("lustre", NicRole::Storage),
    ("ceph", NicRole::Storage),
];

pub struct Roles<'a>(BTreeMap<&'a str, (NicRole, String)>);

impl<'a> Roles<'a> {
    pub fn new(ctx: &Ctx<'a>) -> Self {
        let rails = rails(ctx);
        let role = |nic: &RdmaDevice| {
            let rail = || Some((NicRole::Compute, rails.get(nic.name.as_str())?.clone()));
            of_profile(ctx, nic).or_else(|| of_name(nic)).or_else(rail)
        };
        let mut roles: BTreeMap<&str, (NicRole, String)> =
            rdma_nics(ctx.facts).filter_map(|nic| Some((nic.name.as_str(), role(nic)?))).collect();
        for of_traffic in [of_route, of_mount] {
            // What leads over every NIC that may be one of the GPUs says nothing.
            let is_other = |nic: &RdmaDevice| {
                roles.get(nic.name.as_str()).is_some_and(|(role, _)| *role != NicRole::Compute)
            };
            if rdma_nics(ctx.facts).all(|nic| is_other(nic) || of_traffic(nic).is_some()) {
                continue;
            }
            for nic in rdma_nics(ctx.facts) {
                if let (None, Some(role)) = (roles.get(nic.name.as_str()), of_traffic(nic)) {
                    roles.insert(&nic.name, role);
                }
            }
        }
        Self(roles)
    }

    /// None if nothing says what the NIC is for.
    pub fn of(&self, nic: &str) -> Option<NicRole> {
        self.0.get(nic).map(|(role, _)| *role)
    }

    /// True of a NIC for storage or management.
    pub fn is_other(&self, nic: &str) -> bool {
        self.of(nic).is_some_and(|role| role != NicRole::Compute)
    }

    /// As in `a compute NIC: the nearest one of GPU3 (PIX)`.
    pub fn phrase(&self, nic: &str) -> Option<String> {
        let (role, why) = self.0.get(nic)?;
        Some(format!("a {} NIC: {why}", role.word()))
    }

    /// A judgement on a port, with the role of its NIC: for storage it is a warning at most, for management a note.
    pub fn weighed(&self, nic: &str, judgement: Judgement) -> Judgement {
        let cap = match self.of(nic) {
            Some(NicRole::Management) => Severity::Info,
            Some(NicRole::Storage) => Severity::Warn,
            Some(NicRole::Compute) | None => return judgement,
        };
        self.capped(nic, judgement, cap)
    }

    /// The same for what a profile expects: it is a warning at most.
    pub fn expected(&self, nic: &str, judgement: Judgement) -> Judgement {
        if self.is_other(nic) { self.capped(nic, judgement, Severity::Warn) } else { judgement }
    }

    fn capped(&self, nic: &str, judgement: Judgement, cap: Severity) -> Judgement {
        let Some(phrase) = self.phrase(nic).filter(|_| judgement.rule == Rule::Broken) else {
            return judgement;
        };
        let message = format!("{} It is {phrase}.", judgement.message);
        let weight = judgement.weight.map_or(cap, |weight| weight.min(cap));
        Judgement { message, ..judgement }.weighing(weight)
    }
}

fn of_profile(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Option<(NicRole, String)> {
    let place = nic.place.present().map(ToString::to_string);
    let names: Vec<&str> = names(nic).chain(place.as_deref()).collect();
    let (profile, role) = ctx.expectations.role(&names)?;
    Some((role, format!("profile {profile} says so")))
}

/// Its names: that of the RDMA device, those of its network interfaces.
fn names(nic: &RdmaDevice) -> impl Iterator<Item = &str> {
    let interfaces = nic.interfaces.known().into_iter().flatten();
    std::iter::once(nic.name.as_str()).chain(interfaces.map(String::as_str))
}

fn of_name(nic: &RdmaDevice) -> Option<(NicRole, String)> {
    names(nic).find_map(|name| {
        let lower = name.to_ascii_lowercase();
        let words = || lower.split(|c: char| !c.is_ascii_alphabetic());
        let mut known = WORDS.iter();
        let (_, role) = known.find(|(start, _)| words().any(|word| word.starts_with(start)))?;
        Some((*role, format!("its name is {name}")))
    })
}

fn of_route(nic: &RdmaDevice) -> Option<(NicRole, String)> {
    let interface = nic.default_route.present()?;
    Some((NicRole::Management, format!("the default route leads over {interface}")))
}

fn of_mount(nic: &RdmaDevice) -> Option<(NicRole, String)> {
    let found = nic.storage.present()?;
    let (kind, interface) = (&found.kind, &found.interface);
    Some((NicRole::Storage, format!("storage ({kind}) is reached over {interface}")))
}

/// The NICs below a switch with a GPU that has no nearer one, up or down, with the reason. A guest's tree is the hypervisor's.
fn rails(ctx: &Ctx<'_>) -> BTreeMap<String, String> {
    let topology = ctx.topology;
    if ctx.facts.platform.is_guest() {
        return BTreeMap::new();
    }
    let kind = |row: usize| topology.rows.get(row).map(|row| row.kind);
    let of_gpus = topology.matches.iter().filter(|found| kind(found.row) == Some(Kind::Gpu));
    let nearest: BTreeMap<usize, PciClass> = of_gpus
        .filter_map(|found| {
            let nic = found.nearer_down.or(found.pick)?;
            Some((found.row, topology.class(found.row, nic)?))
        })
        .collect();
    let of_nics = topology.matches.iter().filter(|found| kind(found.row) == Some(Kind::Nic));
    let rail = of_nics.filter_map(|found| {
        let (gpu, class) = found.best.iter().find_map(|gpu| {
            let class = topology.class(found.row, *gpu)?;
            let is_below_switch = matches!(class, PciClass::Pix | PciClass::Pxb);
            (is_below_switch && nearest.get(gpu) == Some(&class)).then_some((*gpu, class))
        })?;
        let (nic, gpu) = (topology.rows.get(found.row)?, topology.rows.get(gpu)?);
        let why = format!("the nearest of {} ({})", gpu.name, class.letters());
        Some((nic.label.clone(), why))
    });
    rail.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit as _, findings, machine};
    use crate::model::{Fact, Outcome};

    /// In a guest, where no tree says which NIC is near a GPU. Both ports lack a subnet manager, which is a warning.
    #[test]
    fn default_route_over_all_nics_says_nothing() {
        let mut facts = machine();
        facts.platform.hypervisor_type = Fact::Known(Some("xen".to_owned()));
        let first = facts.nic_mut();
        first.default_route = Fact::Known(Some("ib0".to_owned()));
        if let Fact::Known(ports) = &mut first.ports {
            ports[0].state = Fact::Known("INIT".to_owned());
        }
        let second = RdmaDevice {
            name: "mlx5_1".to_owned(),
            default_route: Fact::Known(None),
            ..first.clone()
        };
        for (nics, outcome) in [(1, Outcome::Warn), (2, Outcome::Info)] {
            let mut facts = facts.clone();
            if let Fact::Known(all) = &mut facts.rdma {
                all.push(second.clone());
                all.truncate(nics);
            }
            let found = findings("rdma.port", &facts, &[]);
            let of = found.iter().find(|found| found.subject == "mlx5_0").expect("a finding");
            assert_eq!(of.outcome, outcome, "{nics}: {}", of.message);
        }
    }

    #[test]
    fn names_say_what_a_nic_is_for() {
        let mut facts = machine();
        let nic = facts.nic_mut();
        for (name, interface, role) in [
            ("mlx5_0", "eth0", None),
            ("mlx5_mgmt0", "eth0", Some(NicRole::Management)),
            ("mlx5_9", "storage1np0", Some(NicRole::Storage)),
            ("mlx5_9", "enp3s0f0-oob", Some(NicRole::Management)),
            ("restored0", "administrator0", None),
        ] {
            nic.name = name.to_owned();
            nic.interfaces = Fact::Known(vec![interface.to_owned()]);
            assert_eq!(of_name(nic).map(|(role, _)| role), role, "{name} {interface}");
        }
    }
}
