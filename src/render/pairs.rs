//! The NIC for each GPU, with settings for NCCL, UCX, CUDA and numactl.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::View;
use super::text::{Tone, printable, wrap};
use crate::model::{Fact, Kind, Match, RdmaDevice, Row};
use crate::output::shell_word;

/// The RDMA devices by name.
type Devices<'a> = BTreeMap<&'a str, &'a RdmaDevice>;

/// One paragraph per GPU.
pub fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = &view.topology.rows;
    let mut devices = Devices::new();
    for device in view.facts.rdma.known().into_iter().flatten() {
        devices.entry(&device.name).or_insert(device);
    }
    let mut gpus = view
        .topology
        .matches
        .iter()
        .filter(|m| rows[m.row].kind == Kind::Gpu)
        .peekable();
    if gpus.peek().is_none() {
        return out.write_all(b"# no GPU found\n");
    }
    gpus.try_for_each(|m| out.write_all(paragraph(view, &devices, m).as_bytes()))
}

fn paragraph(view: &View<'_>, devices: &Devices<'_>, m: &Match) -> String {
    let rows = &view.topology.rows;
    let gpu = &rows[m.row];
    let verdict = view
        .style
        .paint(Tone::of_verdict(m.verdict), m.verdict.phrase());
    let comment = |text: &str| format!("# {}\n", wrap(&printable(text), view.style.width, 2, "# "));
    let start = gpu.name.len() + m.verdict.phrase().len() + 6;
    let reason = wrap(&printable(&m.reason), view.style.width, start, "# ");
    let mut text = format!("# {}: {verdict}: {reason}\n", gpu.name);
    let nic = m.pick.map(|pick| &rows[pick]);
    if let Some(nic) = nic.filter(|nic| !nic.named) {
        text.push_str(&comment(&format!(
            "this source does not contain the name of the RDMA device of {} ({label}): see \
             /sys/bus/pci/devices/{label}/infiniband",
            nic.name,
            label = nic.label
        )));
    }
    text.push_str(&line(devices, gpu, nic.filter(|nic| nic.named)));
    text.push('\n');
    text
}

/// Variables to put before a command; unknown values are left out.
fn line(devices: &Devices<'_>, gpu: &Row, nic: Option<&Row>) -> String {
    let mut parts = vec!["env".to_owned()];
    match &gpu.uuid {
        Some(uuid) => parts.push(format!("CUDA_VISIBLE_DEVICES={}", shell_word(uuid))),
        None => {
            // By default, CUDA orders devices by speed.
            parts.push("CUDA_DEVICE_ORDER=PCI_BUS_ID".to_owned());
            parts.push(format!(
                "CUDA_VISIBLE_DEVICES={}",
                gpu.name.trim_start_matches("GPU")
            ));
        }
    }
    if let Some(nic) = nic {
        let port = port(devices, &nic.label);
        let name = &nic.label;
        // The second equals sign makes NCCL match the full name; otherwise mlx5_1 also matches mlx5_10.
        parts.push(format!(
            "NCCL_IB_HCA={}",
            shell_word(&format!("={name}:{port}"))
        ));
        parts.push(format!(
            "UCX_NET_DEVICES={}",
            shell_word(&format!("{name}:{port}"))
        ));
    }
    if let Fact::Known(nodes) = &gpu.nodes
        && !nodes.is_empty()
    {
        parts.push(format!("numactl --cpunodebind={nodes} --membind={nodes}"));
    }
    parts.join(" ") + " COMMAND"
}

/// The first active port, else the first port.
fn port(devices: &Devices<'_>, name: &str) -> u32 {
    let ports = devices
        .get(name)
        .and_then(|device| device.ports.known())
        .map_or(&[][..], Vec::as_slice);
    let up = ports
        .iter()
        .find(|port| port.state.known().is_some_and(|state| state == "ACTIVE"));
    up.or(ports.first()).map_or(1, |port| port.number)
}
