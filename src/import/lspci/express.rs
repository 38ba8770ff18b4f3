//! The PCI Express capability in `lspci -vv`.

use super::lines::Line;
use super::registers::{Register, register};
use crate::model::config::{Aspm, Express, Link, LinkPair, LinkSpeed, PortType};

/// The port type from the title: `Express (v2) Root Port (Slot+), MSI 00`.
pub(super) fn port(title: &str) -> Option<PortType> {
    const KINDS: [(&str, PortType); 10] = [
        ("Endpoint", PortType::Endpoint),
        ("Legacy Endpoint", PortType::LegacyEndpoint),
        ("Root Port", PortType::RootPort),
        ("Upstream Port", PortType::UpstreamPort),
        ("Downstream Port", PortType::DownstreamPort),
        ("PCI-Express to PCI/PCI-X Bridge", PortType::PcieToPci),
        ("PCI/PCI-X to PCI-Express Bridge", PortType::PciToPcie),
        // Before 3.2.
        ("PCI/PCI-X Bridge", PortType::PcieToPci),
        ("Root Complex Integrated Endpoint", PortType::RootComplexEndpoint),
        ("Root Complex Event Collector", PortType::RootComplexEventCollector),
    ];
    let kind = kind(title)?;
    if let Some(code) = kind.strip_prefix("Unknown type ") {
        let digits = code.split(',').next()?;
        return digits.parse().ok().map(PortType::Other);
    }
    KINDS.iter().find(|(name, _)| kind.starts_with(name)).map(|(_, port)| *port)
}

/// The title without `Express (v2)`.
fn kind(title: &str) -> Option<&str> {
    let kind = title.strip_prefix("Express ")?;
    match kind.strip_prefix("(v") {
        Some(version) => version.split_once(") ").map(|(_, kind)| kind),
        None => Some(kind),
    }
}

/// The capability, if printed completely.
pub(super) fn express(offset: u16, title: &str, lines: &[Line<'_>]) -> Option<Express> {
    let port = port(title)?;
    title.strip_prefix("Express (v")?;
    let control = register(lines, "DevCtl")?;
    Some(Express {
        offset,
        port,
        max_payload: control.number("MaxPayload ")?,
        max_read_request: control.number("MaxReadReq ")?,
        relaxed_ordering: control.flag("RlxdOrd")?,
        extended_tag: control.flag("ExtTag")?,
        no_snoop: control.flag("NoSnoop")?,
        link: if port.is_integrated() { None } else { Some(link_pair(lines)?) },
    })
}

fn link_pair(lines: &[Line<'_>]) -> Option<LinkPair> {
    let capabilities = register(lines, "LnkCap")?;
    let control = register(lines, "LnkCtl")?;
    let status = register(lines, "LnkSta")?;
    // lspci prints the second register set only for a NIC's first function, which is the one that counts.
    let target =
        register(lines, "LnkCtl2").and_then(|second| speed(second.after("Target Link Speed: ")?));
    Some(LinkPair {
        max: link(&capabilities)?,
        current: link(&status)?,
        target: target.filter(|speed| speed.0 != 0),
        aspm_enabled: aspm(control.after("ASPM ")?),
        port_number: capabilities.number("Port #")?,
    })
}

fn link(register: &Register<'_>) -> Option<Link> {
    Some(Link { speed: speed(register.after("Speed ")?)?, width: register.number("Width x")? })
}

/// Parses `16GT/s`; 0 for `unknown`, lspci's word for values that it does not know.
fn speed(text: &str) -> Option<LinkSpeed> {
    const SPEEDS: [(&str, u8); 8] = [
        ("2.5GT/s", 1),
        ("5GT/s", 2),
        ("8GT/s", 3),
        ("16GT/s", 4),
        ("32GT/s", 5),
        ("64GT/s", 6),
        ("128GT/s", 7),
        ("unknown", 0),
    ];
    let found = SPEEDS
        .iter()
        .find(|(name, _)| text.to_ascii_lowercase().starts_with(&name.to_ascii_lowercase()));
    found.map(|(_, code)| LinkSpeed(*code))
}

/// Parses `L0s L1, Exit Latency …`, `L1 Enabled; …`, `not supported`, `Disabled; …`.
fn aspm(text: &str) -> Aspm {
    let states = text.split([',', ';']).next().unwrap_or_default();
    let has = |state: &str| states.split(' ').any(|word| word == state);
    Aspm { l0s: has("L0s"), l1: has("L1") }
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::*;

    /// From version 3.5.
    const OLD: &str = "\
\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0
\t\t\tExtTag- RBE+
\t\tDevCtl:\tReport errors: Correctable+ Non-Fatal+ Fatal+ Unsupported+
\t\t\tRlxdOrd- ExtTag- PhantFunc- AuxPwr- NoSnoop+
\t\t\tMaxPayload 128 bytes, MaxReadReq 512 bytes
\t\tDevSta:\tCorrErr- UncorrErr- FatalErr- UnsuppReq- AuxPwr- TransPend-
\t\tLnkCap:\tPort #3, Speed 8GT/s, Width x16, ASPM L0s L1, Exit Latency L0s <512ns, L1 <4us
\t\t\tClockPM- Surprise+ LLActRep+ BwNot+ ASPMOptComp+
\t\tLnkCtl:\tASPM L1 Enabled; RCB 64 bytes Disabled- CommClk+
\t\t\tExtSynch- ClockPM- AutWidDis- BWInt- AutBWInt-
\t\tLnkSta:\tSpeed 5GT/s, Width x8, TrErr- Train+ SlotClk+ DLActive+ BWMgmt+ ABWMgmt-
\t\tSltCap:\tAttnBtn- PwrCtrl- MRL- AttnInd- PwrInd- HotPlug- Surprise-
\t\t\tSlot #2, PowerLimit 75.000W; Interlock- NoCompl+
\t\tLnkCtl2: Target Link Speed: 8GT/s, EnterCompliance- SpeedDis-";

    /// From version 3.13.
    const NEW: &str = "\
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0, Latency L0s unlimited, L1 <64us
\t\t\tExtTag+ AttnBtn- AttnInd- PwrInd- RBE+ FLReset+ SlotPowerLimit 75W TEE-IO-
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop- FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes
\t\tLnkCap:\tPort #0, Speed 64GT/s, Width x16, ASPM not supported
\t\t\tClockPM- Surprise- LLActRep- BwNot- ASPMOptComp+
\t\tLnkCtl:\tASPM Disabled; RCB 64 bytes, LnkDisable+ CommClk+
\t\t\tExtSynch- ClockPM- AutWidDis- BWInt- AutBWInt- FltModeDis-
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x8 (downgraded)
\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-";

    fn read(title: &str, text: &str) -> Option<Express> {
        let lines: Vec<Line<'_>> = lines(text.as_bytes()).collect();
        express(0x40, title, &lines)
    }

    #[test]
    fn reads_old_format() {
        let found = read("Express (v2) Root Port (Slot+), MSI 00", OLD).expect("complete");
        let link = LinkPair {
            max: Link { speed: LinkSpeed(3), width: 16 },
            current: Link { speed: LinkSpeed(2), width: 8 },
            target: Some(LinkSpeed(3)),
            aspm_enabled: Aspm { l0s: false, l1: true },
            port_number: 3,
        };
        let expected = Express {
            offset: 0x40,
            port: PortType::RootPort,
            max_payload: 128,
            max_read_request: 512,
            relaxed_ordering: false,
            extended_tag: false,
            no_snoop: true,
            link: Some(link),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn reads_new_format() {
        let found = read("Express (v2) Endpoint, IntMsgNum 0", NEW).expect("complete");
        assert_eq!(found.port, PortType::Endpoint);
        assert_eq!((found.max_payload, found.max_read_request), (256, 4096));
        assert!(found.relaxed_ordering && found.extended_tag && !found.no_snoop);
        let link = found.link.expect("a link");
        assert_eq!(
            (link.max.to_string(), link.current.to_string()),
            ("64GT/s x16".into(), "16GT/s x8".into())
        );
        assert_eq!(link.target, None);
    }

    #[test]
    fn incomplete_capability_is_none() {
        for gone in ["DevCtl", "LnkCap", "LnkSta", "MaxReadReq"] {
            let text: String = NEW
                .lines()
                .filter(|line| !line.contains(gone))
                .map(|line| format!("{line}\n"))
                .collect();
            assert_eq!(read("Express (v2) Endpoint, MSI 00", &text), None, "{gone}");
        }
        // -v prints titles only.
        assert_eq!(read("Express Endpoint, MSI 00", NEW), None);
    }

    #[test]
    fn title_gives_port_type() {
        for (title, expected) in [
            ("Express (v2) Legacy Endpoint, MSI 00", Some(PortType::LegacyEndpoint)),
            ("Express Upstream Port, IntMsgNum 0", Some(PortType::UpstreamPort)),
            ("Express (v1) PCI-Express to PCI/PCI-X Bridge, MSI 00", Some(PortType::PcieToPci)),
            (
                "Express (v1) PCI/PCI-X to PCI-Express Bridge (Slot-), MSI 00",
                Some(PortType::PciToPcie),
            ),
            (
                "Express (v2) Root Complex Integrated Endpoint, MSI 00",
                Some(PortType::RootComplexEndpoint),
            ),
            (
                "Express (v2) Root Complex Event Collector, MSI 00",
                Some(PortType::RootComplexEventCollector),
            ),
            ("Express (v2) Unknown type 12, MSI 00", Some(PortType::Other(12))),
            ("MSI: Enable+ Count=1/1", None),
        ] {
            assert_eq!(port(title), expected, "{title}");
        }
    }
}
