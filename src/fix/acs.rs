//! acs: ports no longer send the traffic between devices up to the root complex.
//!
//! Of the control register only the bits that redirect are cleared (request redirect, completion redirect, and egress
//! control where its vector stops the pair); source validation, translation blocking and upstream forwarding stay.

use std::collections::{BTreeMap, BTreeSet};

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest, Persist, PortChoice};
use super::persist;
use crate::check::{Ctx, ground};
use crate::model::config::AcsBits;
use crate::model::{Bdf, Capability, Fact, Severity, Why};
use crate::topo::{self, MAX_PATHS, Redirect, Role};

pub const FIX: Fix = Fix {
    id: "acs",
    about: "Ports on the ways between GPUs and NICs stop redirecting peer-to-peer traffic to the root complex.",
    desired,
};

/// The control register in the capability (PCI Express 7.7.11.3).
const CONTROL: u16 = 6;

/// Request and completion redirect.
const REDIRECT: u16 = 0b00_1100;
const EGRESS: u16 = 0b10_0000;

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ctx.facts.platform.is_guest() {
        return DesiredState::refused(
            "This is a virtual machine: the ports that matter are the host's. There, DirectTrans with ATS on the NIC is the \
             way (see pcie.acs-vm); a guest can neither see nor change it.",
        );
    }
    if ground::is_grace(ctx) {
        return DesiredState::refused(
            "On Grace and Vera the ports keep the bits that the kernel sets: GPU memory is reached over NVLink-C2C, and \
             clearing them is unsafe.",
        );
    }
    let locked = match &ctx.facts.platform.lockdown {
        Fact::Known(Some(mode)) if mode != "none" && !request.options.force => Some(mode),
        _ => None,
    };
    let by_kernel = request.options.persist == Some(Persist::CommandLine);
    if let Some(mode) = locked
        && !by_kernel
    {
        return DesiredState::refused(format!(
            "The kernel is locked down ({mode}): it refuses writes to configuration space. Put the change on the kernel's \
             command line instead (gdr fix-acs --persist cmdline), or switch secure boot off; --force tries all the same."
        ));
    }
    let ports = match ports(request) {
        Ok(ports) => ports,
        Err(why) => return DesiredState::refused(why),
    };
    let mut desired = DesiredState::default();
    let lasting = match by_kernel {
        true => lasting(request, &ports),
        false => BTreeMap::new(),
    };
    let concerned: BTreeSet<&Bdf> = ports.keys().chain(lasting.keys()).collect();
    let all_held = ground::Held::new(ctx);
    let held: Vec<String> = concerned
        .into_iter()
        .flat_map(|port| {
            let held = all_held.below(*port).iter();
            held.map(move |device| format!("{device} below {port}"))
        })
        .collect();
    if !held.is_empty() && !request.options.force {
        return DesiredState::refused(format!(
            "A device is handed to a virtual machine ({}): these bits keep it apart from the others, and clearing them opens \
             a way around the IOMMU. --force clears them all the same.",
            held.join(", ")
        ));
    }
    // A kernel that is locked down takes them from its command line alone.
    for (port, mask) in ports.iter().filter(|_| locked.is_none()) {
        let Some(acs) = ctx
            .facts
            .device(*port)
            .and_then(|device| device.config.acs.present())
        else {
            continue;
        };
        let set = AcsBits(acs.control.0 & mask);
        let verb = if set.0.count_ones() == 1 { "is" } else { "are" };
        desired.desired_change(
            format!("{port} no longer redirects: {} {verb} cleared.", names(set)),
            ChangeTarget::Register {
                bdf: *port,
                capability: Capability::ACS,
                offset: CONTROL,
                width: 2,
                mask: (*mask).into(),
                value: 0,
            },
        );
    }
    if !held.is_empty() {
        desired.warnings.push(format!(
            "{} belong to virtual machines: their isolation goes with these bits.",
            held.join(", ")
        ));
    }
    if translated(ctx) {
        desired.warnings.push(
            "The IOMMU translates these devices' addresses: a switch cannot route those to a GPU, so clearing the bits alone \
             gains nothing. See pcie.iommu ('gdr fix iommu')."
                .to_owned(),
        );
    }
    let kept = match request.options.persist {
        // Where nothing is changed there is nothing to mind.
        None if desired.desired_changes.is_empty() => Ok(()),
        None => {
            desired.warnings.push(
                "Idle the devices first. The change is gone after a reboot, a hot-plug, or a reset of a port (AER, DPC): \
                 --persist unit or --persist cmdline keeps it."
                    .to_owned(),
            );
            Ok(())
        }
        Some(Persist::Unit) => persist::unit(&mut desired, request),
        Some(Persist::CommandLine) => persist::command_line(&mut desired, ctx, &lasting),
    };
    match kept {
        Ok(()) => desired,
        Err(why) => DesiredState::refused(why),
    }
}

/// The ports that the kernel is to be told of, and the bits: those that redirect, and of the ways that count those that
/// were cleared before, which a boot would set again.
fn lasting(request: &FixRequest<'_>, ports: &BTreeMap<Bdf, u16>) -> BTreeMap<Bdf, u16> {
    let mut lasting = ports.clone();
    let all: Vec<Bdf> = match &request.options.ports {
        PortChoice::Judged => ground::ports(request.ctx).worth.into_iter().collect(),
        PortChoice::Pair(a, b) => between(request.ctx, a, b).map_or_else(
            |_| Vec::new(),
            |ports| ports.into_iter().map(|redirect| redirect.port).collect(),
        ),
        PortChoice::Port(_) | PortChoice::AllBridges => Vec::new(),
    };
    for port in all {
        lasting.entry(port).or_insert(REDIRECT);
    }
    let has_acs = |port: &Bdf| {
        let device = request.ctx.facts.device(*port);
        device.is_some_and(|device| device.config.acs.present().is_some())
    };
    lasting.retain(|port, _| has_acs(port));
    lasting
}

/// The ports to change, and the bits to clear of each.
fn ports(request: &FixRequest<'_>) -> Result<BTreeMap<Bdf, u16>, String> {
    let ctx = request.ctx;
    match &request.options.ports {
        PortChoice::Judged => {
            let found = ground::ports(ctx);
            if found.too_many {
                return Err(format!(
                    "There are more than {MAX_PATHS} pairs of devices, and gdr follows no more paths: name a pair or a port."
                ));
            }
            // Between host bridges the bits matter to nobody.
            let redirecting = found
                .redirecting
                .iter()
                .filter(|(_, what)| what.weight > Severity::Info);
            if let Some((port, why)) = found.unknown.iter().next() {
                return Err(unread(*port, *why));
            }
            Ok(redirecting
                .map(|(port, what)| (*port, bits(&what.bits)))
                .collect())
        }
        PortChoice::Pair(a, b) => pair(ctx, a, b),
        PortChoice::Port(port) => {
            let device = ctx
                .facts
                .device(*port)
                .ok_or_else(|| format!("There is no function {port}."))?;
            match &device.config.acs {
                Fact::Known(Some(_)) => Ok([(*port, REDIRECT | EGRESS)].into()),
                Fact::Known(None) => Err(format!(
                    "{port} has no access control services: there is nothing to clear."
                )),
                Fact::Unknown(why) => Err(unread(*port, *why)),
            }
        }
        PortChoice::AllBridges => {
            let bridges = ctx.facts.devices().iter().filter(|device| {
                let role = ctx.forest.role(device);
                matches!(role, Role::RootPort | Role::DownstreamPort)
            });
            let with_acs = bridges.filter(|device| device.config.acs.present().is_some());
            Ok(with_acs
                .map(|device| (device.bdf, REDIRECT | EGRESS))
                .collect())
        }
    }
}

/// A port whose register is not known is not changed, and neither are the others: half a way is no way.
fn unread(port: Bdf, why: Why) -> String {
    format!(
        "The access control services of {port} cannot be read: {}; run it as root.",
        why.phrase()
    )
}

/// The ports between two devices.
fn between(ctx: &Ctx<'_>, a: &str, b: &str) -> Result<Vec<Redirect>, String> {
    let row = |name: &str| {
        ctx.topology.find(name).ok_or_else(|| {
            let names: Vec<&str> = ctx
                .topology
                .rows
                .iter()
                .map(|row| row.name.as_str())
                .collect();
            format!("There is no device {name}; there are {}.", names.join(", "))
        })
    };
    let path = ctx.topology.route(row(a)?, row(b)?)?;
    Ok(topo::redirects(ctx.forest, &path))
}

/// Those of them that redirect.
fn pair(ctx: &Ctx<'_>, a: &str, b: &str) -> Result<BTreeMap<Bdf, u16>, String> {
    let mut ports = BTreeMap::new();
    for redirect in between(ctx, a, b)? {
        match redirect.bits {
            Fact::Known(found) if found.is_empty() => {}
            Fact::Known(found) => {
                ports.insert(redirect.port, bits(&found));
            }
            Fact::Unknown(why) => return Err(unread(redirect.port, why)),
        }
    }
    Ok(ports)
}

/// The bits that are set, by lspci's names.
fn names(set: AcsBits) -> String {
    let all = [
        (set.request_redirect(), "ReqRedir"),
        (set.completion_redirect(), "CmpltRedir"),
        (set.egress_control(), "EgressCtrl"),
    ];
    let names: Vec<&str> = all
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, name)| *name)
        .collect();
    names.join(", ")
}

/// The register's bits by lspci's names.
fn bits(names: &[&str]) -> u16 {
    let egress = if names.contains(&"EgressCtrl") {
        EGRESS
    } else {
        0
    };
    // Both of them, whichever was on its own: completions follow their requests.
    REDIRECT | egress
}

/// Whether the IOMMU translates addresses of a GPU or a NIC.
fn translated(ctx: &Ctx<'_>) -> bool {
    let rows = ctx.topology.rows.iter().filter_map(|row| row.bdf);
    rows.into_iter().any(|bdf| ground::is_translated(ctx, bdf))
}
