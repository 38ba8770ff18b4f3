//! Extended capabilities in `lspci -vv`; `None` if incomplete.

use super::lines::Line;
use super::registers::register;
use crate::model::config::{Acs, AcsBits, Ats, SerialNumber, SrIov};
use crate::model::{Fact, Why};

/// Access Control Services. lspci does not print the egress control vector or its size.
pub(super) fn acs(offset: u16, lines: &[Line<'_>]) -> Option<Acs> {
    const NAMES: [(&str, u32); 7] = [
        ("SrcValid", 0),
        ("TransBlk", 1),
        ("ReqRedir", 2),
        ("CmpltRedir", 3),
        ("UpstreamFwd", 4),
        ("EgressCtrl", 5),
        ("DirectTrans", 6),
    ];
    let bits = |name: &str| {
        let bits = register(lines, name)?.bits(&NAMES)?;
        u16::try_from(bits).ok().map(AcsBits)
    };
    let capable = bits("ACSCap")?;
    Some(Acs {
        offset,
        capable,
        control: bits("ACSCtl")?,
        egress_size: 0,
        egress_vector: if capable.egress_control() {
            Fact::Unknown(Why::NotCovered)
        } else {
            Fact::Known(Vec::new())
        },
    })
}

pub(super) fn ats(lines: &[Line<'_>]) -> Option<Ats> {
    Some(Ats { enabled: register(lines, "ATSCtl")?.flag("Enable")? })
}

/// The serial number in the title.
pub(super) fn serial_number(title: &str) -> Option<SerialNumber> {
    let digits = title.strip_prefix("Device Serial Number ")?;
    let mut number = 0;
    let mut count = 0;
    for part in digits.split('-') {
        let fits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        number = number << 8 | u64::from_str_radix(part, 16).ok().filter(|_| fits)?;
        count += 1;
    }
    (count == 8).then_some(SerialNumber(number))
}

pub(super) fn sriov(lines: &[Line<'_>]) -> Option<SrIov> {
    let control = register(lines, "IOVCtl")?;
    // Register names below have several words, so they all belong to the status register.
    let rest = register(lines, "IOVSta")?;
    Some(SrIov {
        enabled: control.flag("Enable")?,
        num_vfs: rest.number("Number of VFs: ")?,
        first_vf_offset: rest.number("VF offset: ")?,
        vf_stride: rest.number("stride: ")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::lines::lines;
    use super::*;

    fn with<T>(text: &str, read: impl FnOnce(&[Line<'_>]) -> T) -> T {
        let lines: Vec<Line<'_>> = lines(text.as_bytes()).collect();
        read(&lines)
    }

    #[test]
    fn reads_access_control() {
        const TEXT: &str = "\
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-";
        let found = with(TEXT, |lines| acs(0x148, lines)).expect("complete");
        assert_eq!(
            (found.offset, found.capable, found.control),
            (0x148, AcsBits(0x5f), AcsBits(0x1d))
        );
        assert_eq!(found.egress_vector, Fact::Known(Vec::new()));
        let capable = TEXT.replacen("EgressCtrl-", "EgressCtrl+", 1);
        let found = with(&capable, |lines| acs(0x148, lines)).expect("complete");
        assert_eq!(found.egress_vector, Fact::Unknown(Why::NotCovered), "the vector is unknown");
        for cut in [TEXT.len() - 5, TEXT.len() - 20, 60, 0] {
            assert_eq!(with(&TEXT[..cut], |lines| acs(0x148, lines)), None, "{cut}");
        }
    }

    #[test]
    fn reads_address_translation() {
        let text = "\t\tATSCap:\tInvalidate Queue Depth: 00\n\t\tATSCtl:\tEnable+, Smallest Translation Unit: 01";
        assert_eq!(with(text, ats), Some(Ats { enabled: true }));
        assert_eq!(with("\t\tATSCap:\tInvalidate Queue Depth: 00", ats), None);
    }

    #[test]
    fn reads_serial_numbers() {
        let title = "Device Serial Number b8-ce-f6-03-00-12-34-56";
        assert_eq!(serial_number(title), Some(SerialNumber(0xb8ce_f603_0012_3456)));
        for title in [
            "Device Serial Number b8-ce-f6-03-00-12-34",
            "Device Serial Number +8-ce-f6-03-00-12-34-56",
            "x",
        ] {
            assert_eq!(serial_number(title), None, "{title}");
        }
    }

    #[test]
    fn reads_virtual_functions() {
        let text = "\
\t\tIOVCap:\tMigration- 10BitTagReq- Interrupt Message Number: 000
\t\tIOVCtl:\tEnable+ Migration- Interrupt- MSE+ ARIHierarchy+ 10BitTagReq-
\t\tIOVSta:\tMigration-
\t\tInitial VFs: 8, Total VFs: 16, Number of VFs: 2, Function Dependency Link: 00
\t\tVF offset: 4, stride: 1, Device ID: 101e
\t\tSupported Page Size: 000007ff, System Page Size: 00000001
\t\tRegion 0: Memory at 0000380000000000 (64-bit, prefetchable)
\t\tRegion 2: Memory at b0000000 (32-bit, non-prefetchable)
\t\tVF Migration: offset: 00000000, BIR: 0";
        let expected = SrIov { enabled: true, num_vfs: 2, first_vf_offset: 4, vf_stride: 1 };
        assert_eq!(with(text, sriov), Some(expected));
        assert_eq!(with(&text.replace("stride: 1, Device ID: 101e", ""), sriov), None);
    }
}
