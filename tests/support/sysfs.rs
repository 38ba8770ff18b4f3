//! The classes above the PCI devices: RDMA, network, NVMe; and what the NVIDIA driver says of its GPUs.

use super::device::{Device, Rdma};
use super::files::Root;
use super::machine::Machine;

/// Writes the class devices of the whole machine.
pub fn lay_out(machine: &Machine, root: &Root<'_>) {
    let mut verbs = 0;
    let gpus = machine.devices.iter().filter(|d| d.gpu.is_some());
    for (rank, device) in gpus.enumerate() {
        gpu(root, device, rank);
    }
    for device in &machine.devices {
        let here = machine.place(device);
        if let Some(rdma) = &device.rdma {
            rdma_device(root, rdma, &here, Some(&here), verbs);
            verbs += 1;
        }
        if let Some(name) = &device.net {
            network(root, name, &here);
        }
        if let Some(name) = &device.nvme {
            let own = format!("{here}/nvme/{name}");
            root.line(&format!("{own}/transport"), "pcie");
            root.line(&format!("{own}/address"), &device.bdf);
            root.line(&format!("{own}/state"), "live");
            root.link(&format!("{own}/device"), &here);
            root.link(&format!("sys/class/nvme/{name}"), &own);
        }
    }
    for rdma in &machine.soft_rdma {
        rdma_device(root, rdma, "sys/devices/virtual", None, verbs);
        verbs += 1;
    }
}

/// The bytes of sysfs `vpd` (PCI Local Bus Specification 3.0, appendix I). The pair "id" is the product's name.
pub fn vpd(pairs: &[(String, String)]) -> Vec<u8> {
    let name = pairs.iter().find(|(key, _)| key == "id").map_or("", |(_, text)| text);
    let mut bytes = large(0x82, name.as_bytes());
    let fields: Vec<u8> = pairs
        .iter()
        .filter(|(key, _)| key != "id")
        .flat_map(|(key, text)| {
            let head = [key.as_bytes(), &[text.len() as u8]].concat();
            [head, text.clone().into_bytes()].concat()
        })
        .collect();
    // The checksum covers everything up to and including itself.
    let mut read_only = large(0x90, &[&fields[..], b"RV\x01\0"].concat());
    bytes.append(&mut read_only);
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    if let Some(last) = bytes.last_mut() {
        *last = sum.wrapping_neg();
    }
    bytes.push(0x78);
    bytes
}

fn large(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u16).to_le_bytes();
    [&[tag], &length[..], body].concat()
}

fn gpu(root: &Root<'_>, device: &Device, rank: usize) {
    let model = device.gpu.as_deref().unwrap_or("");
    let text = [
        format!("Model: \t\t {model}\n"),
        "IRQ:   \t\t 41\n".to_owned(),
        format!("GPU UUID: \t GPU-00000000-0000-0000-0000-{rank:012}\n"),
        "Video BIOS: \t 96.00.a5.00.01\n".to_owned(),
        "Bus Type: \t PCIe\n".to_owned(),
        "DMA Size: \t 52 bits\n".to_owned(),
        "DMA Mask: \t 0xfffffffffffff\n".to_owned(),
        format!("Bus Location: \t {}\n", device.bdf),
        format!("Device Minor: \t {rank}\n"),
        "GPU Firmware: \t 580.159.04\n".to_owned(),
        "GPU Excluded:\t No\n".to_owned(),
    ];
    let path = format!("proc/driver/nvidia/gpus/{}/information", device.bdf);
    root.put(&path, text.concat());
}

fn network(root: &Root<'_>, name: &str, here: &str) {
    let own = format!("{here}/net/{name}");
    root.line(&format!("{own}/address"), "02:00:00:00:00:01");
    root.line(&format!("{own}/operstate"), "up");
    root.line(&format!("{own}/mtu"), 1500);
    root.line(&format!("{own}/type"), 1);
    root.link(&format!("{own}/device"), here);
    root.link(&format!("sys/class/net/{name}"), &own);
}

/// One RDMA device below `here`; a software device has no `device` link.
fn rdma_device(root: &Root<'_>, rdma: &Rdma, here: &str, device: Option<&str>, number: u32) {
    let own = format!("{here}/infiniband/{}", rdma.name);
    let or = |given: &Option<String>, usual: &str| given.clone().unwrap_or(usual.to_owned());
    let guid = or(&rdma.guid, &format!("a088:c203:0000:{number:04x}"));
    let number = rdma.uverbs.unwrap_or(number);
    root.line(&format!("{own}/node_type"), "1: CA");
    root.line(&format!("{own}/node_guid"), &guid);
    root.line(&format!("{own}/sys_image_guid"), &guid);
    root.line(&format!("{own}/node_desc"), &rdma.name);
    root.line(&format!("{own}/fw_ver"), or(&rdma.fw, "28.43.2026"));
    if device.is_some() {
        root.line(&format!("{own}/hca_type"), or(&rdma.hca, "MT4129"));
        root.line(&format!("{own}/board_id"), or(&rdma.board, "MT_0000000838"));
    }
    if let Some(parent) = &rdma.parent {
        root.line(&format!("{own}/parent"), parent);
    }
    port(root, rdma, &format!("{own}/ports/1"), &guid);
    if let Some(device) = device {
        root.link(&format!("{own}/device"), device);
        counters(root, &format!("{own}/ports/1"));
    }
    root.link(&format!("sys/class/infiniband/{}", rdma.name), &own);
    let verbs = format!("{here}/infiniband_verbs/uverbs{number}");
    root.line(&format!("{verbs}/ibdev"), &rdma.name);
    root.line(&format!("{verbs}/dev"), format!("231:{}", 192 + number));
    root.line(&format!("{verbs}/abi_version"), 1);
    root.link(&format!("sys/class/infiniband_verbs/uverbs{number}"), &verbs);
}

/// Some of the counters that mlx5 has, on a link without an error.
fn counters(root: &Root<'_>, port: &str) {
    for (name, value) in [
        ("counters/VL15_dropped", "0"),
        ("counters/link_downed", "1"),
        ("counters/port_rcv_errors", "0"),
        ("counters/port_xmit_data", "4096"),
        ("counters/port_xmit_discards", "0"),
        ("counters/symbol_error", "0"),
        ("hw_counters/lifespan", "10"),
        ("hw_counters/local_ack_timeout_err", "0"),
        ("hw_counters/out_of_sequence", "0"),
        ("hw_counters/packet_seq_err", "0"),
        ("hw_counters/rx_write_requests", "77"),
    ] {
        root.line(&format!("{port}/{name}"), value);
    }
}

fn port(root: &Root<'_>, rdma: &Rdma, port: &str, guid: &str) {
    let or = |given: &Option<String>, usual: &str| given.clone().unwrap_or(usual.to_owned());
    let layer = or(&rdma.layer, "InfiniBand");
    let infiniband = layer == "InfiniBand";
    root.line(&format!("{port}/link_layer"), &layer);
    root.line(&format!("{port}/state"), or(&rdma.state, "4: ACTIVE"));
    root.line(&format!("{port}/phys_state"), or(&rdma.phys_state, "5: LinkUp"));
    root.line(&format!("{port}/rate"), or(&rdma.rate, "400 Gb/sec (4X NDR)"));
    let lid = if infiniband { "0x1" } else { "0x0" };
    root.line(&format!("{port}/lid"), or(&rdma.lid, lid));
    root.line(&format!("{port}/sm_lid"), lid);
    root.line(&format!("{port}/pkeys/0"), "0xffff");
    let usual = [(format!("fe80:0000:0000:0000:{guid}"), "IB/RoCE v1".to_owned(), String::new())];
    let gids = match (rdma.gids.is_empty(), infiniband) {
        (false, _) => &rdma.gids[..],
        (true, true) => &usual[..],
        // Addresses are the machine's own: what says nothing of them tells nothing.
        (true, false) => &[],
    };
    for (index, (gid, kind, interface)) in gids.iter().enumerate() {
        root.line(&format!("{port}/gids/{index}"), gid);
        root.line(&format!("{port}/gid_attrs/types/{index}"), kind);
        if !interface.is_empty() {
            root.line(&format!("{port}/gid_attrs/ndevs/{index}"), interface);
        }
    }
}
