//! What the crate pcics says, in lspci's words.

use pcics::capabilities::pci_express::{DeviceType, ExtendedTagFieldSupported, Link, MaxSize};
use pcics::capabilities::{CapabilityKind, PciExpress};
use pcics::extended_capabilities::ExtendedCapabilityError;
use pcics::extended_capabilities::ExtendedCapabilityKind as Extended;
use pcics::extended_capabilities::resizable_bar::{ResizableBar, ResizableBarEntry};
use pcics::header::HeaderType;
use pcics::{Capabilities, DDR_OFFSET, ECS_OFFSET, ExtendedCapabilities, Header};

use crate::View;
use crate::ours::sign;

/// Whether [`view`] has such a name. The rest is left to lspci.
pub fn covers(name: &str) -> bool {
    const NOT: [&str; 6] = ["control", "pin", "Region", "sriovRegion", "UE", "CE"];
    !NOT.iter().any(|start| name.starts_with(start))
}

pub fn view(bytes: &[u8]) -> View {
    let mut view = View::new();
    let mut put = |name: &str, value: String| drop(view.insert(name.to_owned(), value));
    let header = Header::try_from(&bytes[..DDR_OFFSET]).expect("64 bytes are a header");
    let class = &header.class_code;
    put("class", format!("{:02x}{:02x}", class.base, class.sub));
    put("id", format!("{:04x}:{:04x}", header.vendor_id, header.device_id));
    put("revision", format!("{:02x}", header.revision_id));
    match &header.header_type {
        HeaderType::Normal(normal) if normal.sub_vendor_id != 0 => {
            let (vendor, device) = (normal.sub_vendor_id, normal.sub_device_id);
            put("subsystem", format!("{vendor:04x}:{device:04x}"));
        }
        HeaderType::Bridge(bridge) => {
            let (primary, secondary) = (bridge.primary_bus_number, bridge.secondary_bus_number);
            let subordinate = bridge.subordinate_bus_number;
            put(
                "buses",
                format!("primary={primary:02x}, secondary={secondary:02x}, subordinate={subordinate:02x}"),
            );
        }
        _ => {}
    }
    if header.capabilities_pointer != 0 {
        for capability in Capabilities::new(&bytes[DDR_OFFSET..ECS_OFFSET], &header) {
            match capability.expect("the list is sound").kind {
                CapabilityKind::PciExpress(express) => express_view(express, &mut put),
                CapabilityKind::BridgeSubsystemVendorId(maker) => {
                    let (vendor, device) = (maker.subsystem_vendor_id, maker.subsystem_id);
                    put("subsystem", format!("{vendor:04x}:{device:04x}"));
                }
                _ => {}
            }
        }
    }
    if bytes.len() > ECS_OFFSET {
        for capability in ExtendedCapabilities::new(&bytes[ECS_OFFSET..]) {
            let kind = match capability {
                Ok(capability) => capability.kind,
                // pcics 0.3.2 skips the header of this one capability twice; given it with the header, it reads it well.
                Err(ExtendedCapabilityError::ResizableBar { offset, .. }) => {
                    let bars = ResizableBar::try_from(&bytes[usize::from(offset)..]);
                    Extended::ResizableBar(bars.expect("the capability is sound"))
                }
                Err(other) => panic!("the list is sound: {other}"),
            };
            extended_view(kind, &mut put);
        }
    }
    view
}

fn express_view(express: PciExpress, put: &mut impl FnMut(&str, String)) {
    let bytes = |size| match size {
        MaxSize::B128 => 128,
        MaxSize::B256 => 256,
        MaxSize::B512 => 512,
        MaxSize::B1024 => 1024,
        MaxSize::B2048 => 2048,
        MaxSize::B4096 => 4096,
        MaxSize::Reserved0 | MaxSize::Reserved1 => 0,
    };
    let capabilities = &express.device.capabilities;
    let control = &express.device.control;
    let supported = bytes(capabilities.max_payload_size_supported);
    put("express payload supported", format!("MaxPayload {supported} bytes"));
    let tag = capabilities.extended_tag_field_supported == ExtendedTagFieldSupported::Eight;
    put("express tag supported", format!("ExtTag{}", sign(tag)));
    let (order, tag) = (control.enable_relaxed_ordering, control.extended_tag_field_enable);
    let (order, tag, snoop) = (sign(order), sign(tag), sign(control.enable_no_snoop));
    put("express flags", format!("RlxdOrd{order} ExtTag{tag} NoSnoop{snoop}"));
    let (payload, read) = (bytes(control.max_payload_size), bytes(control.max_read_request_size));
    put(
        "express sizes",
        format!("MaxPayload {payload} bytes, MaxReadReq {read} bytes"),
    );

    let slot = format!(" (Slot{})", sign(express.slot_implemented));
    let (name, slot, link, second) = match express.device_type {
        DeviceType::Endpoint { link, link_2 } => ("Endpoint", "", Some(link), link_2),
        DeviceType::LegacyEndpoint { link, link_2 } => ("Legacy Endpoint", "", Some(link), link_2),
        DeviceType::RootPort { link, link_2, .. } => ("Root Port", slot.as_str(), Some(link), link_2),
        DeviceType::UpstreamPort { link, link_2 } => ("Upstream Port", "", Some(link), link_2),
        DeviceType::DownstreamPort { link, link_2, .. } => ("Downstream Port", slot.as_str(), Some(link), link_2),
        DeviceType::RootComplexIntegratedEndpoint => ("Root Complex Integrated Endpoint", "", None, None),
        other => unreachable!("no such input here: {other:?}"),
    };
    put("express", format!("(v{}) {name}{slot}", express.version));
    if let Some(link) = link {
        link_view(link, put);
    }
    if let Some(second) = second {
        let code: u8 = second.control.target_link_speed.into();
        put("link target", format!("Target Link Speed: {}", speed(code.max(1))));
    }
}

fn link_view(link: Link, put: &mut impl FnMut(&str, String)) {
    use pcics::capabilities::pci_express::ActiveStatePowerManagement as Aspm;
    let aspm = |states| match states {
        Aspm::NoAspm => None,
        Aspm::L0s => Some("L0s"),
        Aspm::L1 => Some("L1"),
        Aspm::L0sAndL1 => Some("L0s L1"),
    };
    let capabilities = link.capabilities;
    let able = aspm(capabilities.active_state_power_management_support).unwrap_or("not supported");
    let rate = speed(capabilities.max_link_speed.into());
    let width = u8::from(capabilities.maximum_link_width);
    let port = capabilities.port_number;
    put(
        "link",
        format!("Port #{port}, Speed {rate}, Width x{width}, ASPM {able}"),
    );
    let enabled = aspm(link.control.active_state_power_management_control);
    let enabled = enabled.map_or("ASPM Disabled".to_owned(), |it| format!("ASPM {it} Enabled"));
    put("link aspm", enabled);
    put("link disabled", sign(link.control.link_disable).to_owned());
    let rate = speed(link.status.current_link_speed.into());
    let width = u8::from(link.status.negotiated_link_width);
    put("link now", format!("Speed {rate}, Width x{width}"));
    put("link Train", sign(link.status.link_training).to_owned());
    put(
        "link DLActive",
        sign(link.status.data_link_layer_link_active).to_owned(),
    );
}

/// PCIe 7.5.3.18, the Supported Link Speeds Vector.
fn speed(code: u8) -> &'static str {
    ["unknown", "2.5GT/s", "5GT/s", "8GT/s", "16GT/s", "32GT/s", "64GT/s"][usize::from(code)]
}

fn extended_view(capability: Extended<'_>, put: &mut impl FnMut(&str, String)) {
    let there = || "there".to_owned();
    match capability {
        Extended::AccessControlServices(acs) => {
            put("acs", there());
            let it = &acs.acs_capability;
            put(
                "ACSCap",
                flags([
                    it.acs_source_validation,
                    it.acs_translation_blocking,
                    it.acs_p2p_request_redirect,
                    it.acs_p2p_completion_redirect,
                    it.acs_upstream_forwarding,
                    it.acs_p2p_egress_control,
                    it.acs_direct_translated_p2p,
                ]),
            );
            let it = &acs.acs_control;
            put(
                "ACSCtl",
                flags([
                    it.acs_source_validation_enable,
                    it.acs_translation_blocking_enable,
                    it.acs_p2p_request_redirect_enable,
                    it.acs_p2p_completion_redirect_enable,
                    it.acs_upstream_forwarding_enable,
                    it.acs_p2p_egress_control_enable,
                    it.acs_direct_translated_p2p_enable,
                ]),
            );
            let bits = acs.egress_control_vectors().map(|set| if set { '1' } else { '0' });
            put("egress", bits.collect());
        }
        Extended::AddressTranslationServices(ats) => {
            put("ats", there());
            let depth = ats.ats_capability.invalidate_queue_depth;
            put("ATSCap", format!("Invalidate Queue Depth: {depth:02x}"));
            let (enabled, unit) = (sign(ats.ats_control.enable), ats.ats_control.smallest_translation_unit);
            put(
                "ATSCtl",
                format!("Enable{enabled}, Smallest Translation Unit: {unit:02x}"),
            );
        }
        Extended::AdvancedErrorReporting(_) => put("aer", there()),
        Extended::DeviceSerialNumber(serial) => {
            let bytes = [serial.upper_dword.to_be_bytes(), serial.lower_dword.to_be_bytes()].concat();
            let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            put("serial", bytes.join("-"));
        }
        Extended::ResizableBar(bars) => {
            put("rebar", there());
            for bar in bars {
                let current = ResizableBarEntry::BAR_SIZES[usize::from(bar.control.bar_size)];
                let steps = (20..64).filter(|step| bar.is_function_supports_power_of_two(*step));
                let sizes: Vec<_> = steps.map(|step| ResizableBarEntry::BAR_SIZES[step - 20]).collect();
                let text = format!("current size: {current}, supported: {}", sizes.join(" "));
                put(&format!("BAR {}", bar.control.bar_index), text);
            }
        }
        Extended::SingleRootIoVirtualization(sriov) => {
            put("sriov", there());
            let control = &sriov.sriov_control;
            let (enabled, memory) = (sign(control.vf_enable), sign(control.vf_mse));
            put("sriov control", format!("Enable{enabled} MSE{memory}"));
            let (total, number) = (sriov.total_vfs, sriov.num_vfs);
            put("sriov counts", format!("Total VFs: {total}, Number of VFs: {number}"));
            let (offset, stride, device) = (sriov.first_vf_offset, sriov.vf_stride, sriov.vf_device_id);
            put(
                "sriov places",
                format!("{offset}, stride: {stride}, Device ID: {device:04x}"),
            );
        }
        _ => {}
    }
}

fn flags(set: [bool; 7]) -> String {
    let names = [
        "SrcValid",
        "TransBlk",
        "ReqRedir",
        "CmpltRedir",
        "UpstreamFwd",
        "EgressCtrl",
        "DirectTrans",
    ];
    let flags: Vec<_> = names
        .iter()
        .zip(set)
        .map(|(name, set)| format!("{name}{}", sign(set)))
        .collect();
    flags.join(" ")
}
