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
        put("ATSCap", format!("Invalidate Queue Depth: {:02x}", ats.queue_depth % 32));
        let unit = ats.smallest_translation_unit.trailing_zeros() - 12;
        let enabled = sign(ats.enabled);
        put("ATSCtl", format!("Enable{enabled}, Smallest Translation Unit: {unit:02x}"));
    }
    if let Some(aer) = config.aer.present() {
        put("aer", "there".to_owned());
        put("UESta", aer.uncorrectable.to_string());
        put("UEMsk", aer.uncorrectable_mask.to_string());
        put("UESvrt", aer.uncorrectable_severity.to_string());
        put("CESta", aer.correctable.to_string());
        put("CEMsk", aer.correctable_mask.to_string());
    }
    if let Some(bars) = config.resizable_bar.present() {
        put("rebar", "there".to_owned());
        for bar in bars {
            let sizes: Vec<_> = bar.supported.iter().map(|size| human(*size)).collect();
            let (current, sizes) = (human(bar.current), sizes.join(" "));
            put(
                &format!("BAR {}", bar.bar),
                format!("current size: {current}, supported: {sizes}"),
            );
        }
    }
    if let Some(sriov) = config.sriov.present() {
        put("sriov", "there".to_owned());
        let (enabled, memory) = (sign(sriov.enabled), sign(sriov.memory_enabled));
        put("sriov control", format!("Enable{enabled} MSE{memory}"));
        let (total, number) = (sriov.total_vfs, sriov.num_vfs);
        put("sriov counts", format!("Total VFs: {total}, Number of VFs: {number}"));
        let (offset, stride, device) = (sriov.first_vf_offset, sriov.vf_stride, sriov.vf_device);
        put("sriov places", format!("{offset}, stride: {stride}, Device ID: {device:04x}"));
        for (name, region) in sriov.vf_bars.iter().filter_map(|bar| region(bar, 16)) {
            put(&format!("sriov{name}"), region);
        }
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
    if let HeaderKind::Bridge { primary, secondary, subordinate, .. } = header.kind {
        let buses = format!(
            "primary={primary:02x}, secondary={secondary:02x}, subordinate={subordinate:02x}"
        );
        put("buses", buses);
    }
    if header.interrupt_pin != 0 {
        put("pin", format!("pin {}", char::from(b'A' - 1 + header.interrupt_pin)));
    }
    for (name, region) in header.bars.iter().filter_map(|bar| region(bar, 0)) {
        put(&name, region);
    }
    view
}

fn express_view(express: &Express, put: &mut impl FnMut(&str, String)) {
    let (kind, slot) = match express.port {
        PortType::Endpoint => ("Endpoint", false),
        PortType::LegacyEndpoint => ("Legacy Endpoint", false),
        PortType::RootPort => ("Root Port", true),
        PortType::UpstreamPort => ("Upstream Port", false),
        PortType::DownstreamPort => ("Downstream Port", true),
        PortType::PcieToPci => ("PCI-Express to PCI/PCI-X Bridge", false),
        PortType::PciToPcie => ("PCI/PCI-X to PCI-Express Bridge", true),
        PortType::RootComplexEndpoint => ("Root Complex Integrated Endpoint", false),
        PortType::RootComplexEventCollector => ("Root Complex Event Collector", false),
        PortType::Other(_) => ("Unknown type", false),
    };
    let slot = if slot { format!(" (Slot{})", sign(express.slot)) } else { String::new() };
    put("express", format!("(v{}) {kind}{slot}", express.version));
    put("express payload supported", format!("MaxPayload {} bytes", express.max_payload_supported));
    put("express tag supported", format!("ExtTag{}", sign(express.extended_tag_supported)));
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
    let able = aspm(link.aspm_supported).unwrap_or("not supported");
    put("link", format!("Port #{}, Speed {speed}, Width x{width}, ASPM {able}", link.port_number));
    let enabled = aspm(link.aspm_enabled).map(|states| format!("ASPM {states} Enabled"));
    put("link aspm", enabled.unwrap_or_else(|| "ASPM Disabled".to_owned()));
    put("link disabled", sign(link.disabled).to_owned());
    put("link now", format!("Speed {}, Width x{}", link.current.speed, link.current.width));
    put("link Train", sign(link.training).to_owned());
    // lspci shows the bit even if the port does not report it.
    put("link DLActive", sign(link.data_link_layer_active == Some(true)).to_owned());
    if express.version >= 2 {
        let target = link.target.map_or("2.5GT/s".to_owned(), |target| target.to_string());
        put("link target", format!("Target Link Speed: {target}"));
    }
}

fn region(bar: &Bar, digits: usize) -> Option<(String, String)> {
    let text = match bar.kind {
        BarKind::Memory { address: 0, .. } | BarKind::Io { address: 0 } => return None,
        BarKind::Io { address } => format!("I/O ports at {address:04x}"),
        BarKind::Memory { address, bits64, prefetchable } => {
            // lspci pads addresses of virtual functions to the register's width.
            let digits = if digits == 0 { 8 } else { if bits64 { 16 } else { 8 } };
            let bits = if bits64 { 64 } else { 32 };
            let non = if prefetchable { "" } else { "non-" };
            format!("Memory at {address:0digits$x} ({bits}-bit, {non}prefetchable)")
        }
    };
    Some((format!("Region {}", bar.index), text))
}

fn human(size: u64) -> String {
    let (unit, name) = [(60, "EB"), (50, "PB"), (40, "TB"), (30, "GB"), (20, "MB")]
        .into_iter()
        .find(|(unit, _)| size >> unit != 0)
        .expect("a BAR of the capability has at least 1 MB");
    format!("{}{name}", size >> unit)
}

pub fn sign(flag: bool) -> &'static str {
    if flag { "+" } else { "-" }
}
