//! RDMA devices: functions, nodes, ports, firmware and libraries. Only `rdma.device` judges software devices and the
//! management functions of NVSwitch systems, which are not NICs.

mod async_nic;
mod core;
mod counters;
mod data_direct;
mod device;
mod firmware;
mod lossless;
mod mixed_stack;
mod modules;
mod netns;
mod nonprefetchable;
mod port;
mod provider;
mod rails;
mod register;
mod uar_map;
mod write_ordering;

pub use nonprefetchable::{SETTING, prefetchable_nics};

use super::nics::{driver, nvidia_nics, rdma_nics};
use super::{Check, Ctx, Judgement, or_skip};
use crate::model::{Area, Fact, NetworkInterface, PciDevice, RdmaDevice, RdmaPort};

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    modules::CHECK,
    mixed_stack::CHECK,
    device::CHECK,
    async_nic::CHECK,
    provider::CHECK,
    netns::CHECK,
    port::CHECK,
    counters::CHECK,
    lossless::CHECK,
    core::CHECK,
    register::CHECK,
    nonprefetchable::CHECK,
    write_ordering::CHECK,
    data_direct::CHECK,
    firmware::CHECK,
    uar_map::CHECK,
];

const CLASS: &str = "/sys/class/infiniband";

/// Judges each NIC; one judgement if there is none.
fn each_nic(ctx: &Ctx<'_>, judge: impl Fn(&RdmaDevice) -> Vec<Judgement>) -> Vec<Judgement> {
    if let Fact::Unknown(why) = ctx.facts.rdma {
        return vec![Judgement::unknown("machine", why, Area::Sys, CLASS)];
    }
    let judgements: Vec<Judgement> = rdma_nics(ctx.facts).flat_map(judge).collect();
    or_skip(judgements, "There is no NIC with RDMA.")
}

/// Judges each port of each NIC; one judgement if there is no NIC.
fn each_port(ctx: &Ctx<'_>, judge: impl Fn(&RdmaDevice, &RdmaPort) -> Judgement) -> Vec<Judgement> {
    each_nic(ctx, |nic| match &nic.ports {
        Fact::Known(ports) => ports.iter().map(|port| judge(nic, port)).collect(),
        Fact::Unknown(why) => vec![Judgement::unknown(
            &nic.name,
            *why,
            Area::Sys,
            &format!("{CLASS}/{}/ports", nic.name),
        )],
    })
}

/// The device name, with the port number if it has several ports.
fn subject(nic: &RdmaDevice, port: &RdmaPort) -> String {
    match nic.ports.known().map_or(0, Vec::len) {
        0 | 1 => nic.name.clone(),
        _ => format!("{}/{}", nic.name, port.number),
    }
}

/// The network interfaces of a port, by name, as far as the kernel answered.
fn interfaces<'a>(
    ctx: &Ctx<'a>,
    nic: &RdmaDevice,
    port: &RdmaPort,
) -> impl Iterator<Item = (&'a String, &'a NetworkInterface)> {
    let port = format!("{}:{}", nic.name, port.number);
    let network = ctx.facts.network.known().into_iter();
    network
        .flat_map(|network| &network.interfaces)
        .filter(move |(_, interface)| interface.port == port)
}

/// Judges each mlx5 NIC; one judgement for every NIC with another or an unknown driver.
fn each_mlx5(ctx: &Ctx<'_>, judge: impl Fn(&RdmaDevice) -> Vec<Judgement>) -> Vec<Judgement> {
    each_nic(ctx, |nic| match driver(ctx.facts, nic) {
        Fact::Known(driver) if driver == MLX5 => judge(nic),
        Fact::Known(driver) => {
            vec![Judgement::skip(&nic.name, format!("It is not an mlx5 NIC: {driver} drives it."))]
        }
        Fact::Unknown(why) => {
            vec![Judgement::unknown(&nic.name, why, Area::Sys, "the NIC's driver")]
        }
    })
}

/// The kernel module that makes these NICs RDMA devices.
fn rdma_module<'a>(mut nics: impl Iterator<Item = &'a PciDevice>) -> &'static str {
    let is_mlx4 = |nic: &PciDevice| {
        let driver = nic.attributes.as_ref().and_then(|attributes| attributes.driver.present());
        driver.is_some_and(|driver| driver == "mlx4_core")
    };
    if nics.all(is_mlx4) { "mlx4_ib" } else { "mlx5_ib" }
}

/// The kernel driver of Connect-IB, ConnectX-4 and later, and BlueField.
const MLX5: &str = "mlx5_core";
