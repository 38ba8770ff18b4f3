//! gdr's decoding in lspci's notation.

use gdr::model::Config;
use gdr::model::config::{Aspm, Bar, BarKind, Express, Header, HeaderKind, PortType};

use crate::pci_differential::View;

pub fn view(config: &Config) -> View {
    let mut view = View::new();
    if let Some(header) = config.header.known() {
        view.extend(header_view(header));
    }
    let mut put = |name: &str, value: String| drop(view.insert(name.to_owned(), value));
    if let Some(express) = config.express.present() {
        express_view(express, &mut put);
    }
    if let Some(acs) = config.acs.present() {
        put("acs", "there".to_owned());
        put("ACSCap", acs.capable.to_string());
        put("ACSCtl", acs.control.to_string());
    }
    if let Some(ats) = config.ats.present() {
        put("ats", "there".to_owned());
        put("ATSCtl", format!("Enable{}", sign(ats.enabled)));
    }
    if let Some(sriov) = config.sriov.present() {
        put("sriov", "there".to_owned());
        put("sriov control", format!("Enable{}", sign(sriov.enabled)));
        put("sriov counts", format!("Number of VFs: {}", sriov.num_vfs));
        put("sriov places", format!("{}, stride: {}", sriov.first_vf_offset, sriov.vf_stride));
    }
    if let Some(serial) = config.serial_number.present() {
        put("serial", serial.to_string());
    }
    view
}

fn header_view(header: &Header) -> View {
    let mut view = View::new();
    let mut put = |name: &str, value: String| drop(view.insert(name.to_owned(), value));
    put("class", format!("{:04x}", header.class.0 >> 8));
    put("id", format!("{:04x}:{:04x}", header.vendor, header.device));
    put("revision", format!("{:02x}", header.revision));
    let [io, memory, master] = [0, 1, 2].map(|bit| header.command.0 & 1 << bit != 0);
    put("control", format!("I/O{} Mem{} BusMaster{}", sign(io), sign(memory), sign(master)));
    let maker = match &header.kind {
        HeaderKind::Endpoint { subsystem } => Some(*subsystem),
        HeaderKind::Bridge { subsystem, .. } => subsystem.present().copied(),
        HeaderKind::CardBus { .. } => None,
    };
    if let Some(maker) = maker.filter(|maker| maker.vendor != 0 && maker.vendor != 0xffff) {
        put("subsystem", format!("{:04x}:{:04x}", maker.vendor, maker.device));
    }
    if let HeaderKind::Bridge { secondary, subordinate, .. } = header.kind {
        put("buses", format!("secondary={secondary:02x}, subordinate={subordinate:02x}"));
    }
    for (name, region) in header.bars.iter().filter_map(region) {
        put(&name, region);
    }
    view
}

fn express_view(express: &Express, put: &mut impl FnMut(&str, String)) {
    let kind = match express.port {
        PortType::Endpoint => "Endpoint",
        PortType::LegacyEndpoint => "Legacy Endpoint",
        PortType::RootPort => "Root Port",
        PortType::UpstreamPort => "Upstream Port",
        PortType::DownstreamPort => "Downstream Port",
        PortType::PcieToPci => "PCI-Express to PCI/PCI-X Bridge",
        PortType::PciToPcie => "PCI/PCI-X to PCI-Express Bridge",
        PortType::RootComplexEndpoint => "Root Complex Integrated Endpoint",
        PortType::RootComplexEventCollector => "Root Complex Event Collector",
        PortType::Other(_) => "Unknown type",
    };
    put("express", kind.to_owned());
    let (order, tag) = (sign(express.relaxed_ordering), sign(express.extended_tag));
    let snoop = sign(express.no_snoop);
    put("express flags", format!("RlxdOrd{order} ExtTag{tag} NoSnoop{snoop}"));
    let (payload, read) = (express.max_payload, express.max_read_request);
    put("express sizes", format!("MaxPayload {payload} bytes, MaxReadReq {read} bytes"));
    let Some(link) = &express.link else { return };
    let aspm = |aspm: Aspm| match (aspm.l0s, aspm.l1) {
        (false, false) => None,
        (true, false) => Some("L0s"),
        (false, true) => Some("L1"),
        (true, true) => Some("L0s L1"),
    };
    let (speed, width) = (link.max.speed, link.max.width);
    put("link", format!("Port #{}, Speed {speed}, Width x{width}", link.port_number));
    let enabled = aspm(link.aspm_enabled).map(|states| format!("ASPM {states} Enabled"));
    put("link aspm", enabled.unwrap_or_else(|| "ASPM Disabled".to_owned()));
    put("link now", format!("Speed {}, Width x{}", link.current.speed, link.current.width));
    // lspci prints the same for 2.5 GT/s and for a register that is zero.
    if let Some(target) = link.target.filter(|target| target.0 != 1) {
        put("link target", format!("Target Link Speed: {target}"));
    }
}

fn region(bar: &Bar) -> Option<(String, String)> {
    let text = match bar.kind {
        BarKind::Memory { address: 0, .. } | BarKind::Io { address: 0 } => return None,
        BarKind::Io { address } => format!("I/O ports at {address:04x}"),
        BarKind::Memory { address, bits64, prefetchable } => {
            let bits = if bits64 { 64 } else { 32 };
            let non = if prefetchable { "" } else { "non-" };
            format!("Memory at {address:08x} ({bits}-bit, {non}prefetchable)")
        }
    };
    Some((format!("Region {}", bar.index), text))
}

pub fn sign(flag: bool) -> &'static str {
    if flag { "+" } else { "-" }
}
