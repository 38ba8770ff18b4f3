//! Extended capabilities in `lspci -vv`; `None` if incomplete.

use super::lines::Line;
use super::registers::{Register, register};
use crate::model::config::{
    Acs, AcsBits, Aer, Ats, Bar, BarKind, CorrectableErrors, ResizableBar, SerialNumber, SrIov,
    UncorrectableErrors,
};
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

pub(super) fn ats(offset: u16, lines: &[Line<'_>]) -> Option<Ats> {
    let control = register(lines, "ATSCtl")?;
    let depth = register(lines, "ATSCap")?.hex("Invalidate Queue Depth: ")?;
    Some(Ats {
        offset,
        enabled: control.flag("Enable")?,
        // PCIe 10.5.1.2: zero means 32.
        queue_depth: match u8::try_from(depth).ok()? {
            0 => 32,
            depth => depth,
        },
        page_aligned: Fact::Unknown(Why::NotCovered),
        smallest_translation_unit: 4096 << (control.hex("Smallest Translation Unit: ")? & 0x1f),
    })
}

/// Advanced Error Reporting. Errors that this lspci does not print count as not set.
pub(super) fn aer(offset: u16, lines: &[Line<'_>]) -> Option<Aer> {
    let uncorrectable = |name| register(lines, name).and_then(|of| uncorrectable(&of));
    let correctable = |name| register(lines, name).and_then(|of| correctable(&of));
    Some(Aer {
        offset,
        uncorrectable: uncorrectable("UESta")?,
        uncorrectable_mask: uncorrectable("UEMsk")?,
        uncorrectable_severity: uncorrectable("UESvrt")?,
        correctable: correctable("CESta")?,
        correctable_mask: correctable("CEMsk")?,
    })
}

fn uncorrectable(register: &Register<'_>) -> Option<UncorrectableErrors> {
    const ALWAYS: [(&str, u32); 12] = [
        ("DLP", 4),
        ("SDES", 5),
        ("TLP", 12),
        ("FCP", 13),
        ("CmpltTO", 14),
        ("CmpltAbrt", 15),
        ("UnxCmplt", 16),
        ("RxOF", 17),
        ("MalfTLP", 18),
        ("ECRC", 19),
        ("UnsupReq", 20),
        ("ACSViol", 21),
    ];
    const LATELY: [(&str, u32); 10] = [
        ("UncorrIntErr", 22),
        ("BlockedTLP", 23),
        ("AtomicOpBlocked", 24),
        ("TLPBlockedErr", 25),
        ("PoisonTLPBlocked", 26),
        ("DMWrReqBlocked", 27),
        ("IDECheck", 28),
        ("MisIDETLP", 29),
        ("PCRC_CHECK", 30),
        ("TLPXlatBlocked", 31),
    ];
    Some(UncorrectableErrors(register.bits(&ALWAYS)? | set(register, &LATELY)))
}

fn correctable(register: &Register<'_>) -> Option<CorrectableErrors> {
    const ALWAYS: [(&str, u32); 5] =
        [("RxErr", 0), ("BadTLP", 6), ("BadDLLP", 7), ("Rollover", 8), ("Timeout", 12)];
    // `NonFatalErr` until 3.6.
    const SOME: [(&str, u32); 4] =
        [("AdvNonFatalErr", 13), ("NonFatalErr", 13), ("CorrIntErr", 14), ("HeaderOF", 15)];
    Some(CorrectableErrors(register.bits(&ALWAYS)? | set(register, &SOME)))
}

fn set(register: &Register<'_>, names: &[(&str, u32)]) -> u32 {
    let bits = names.iter().filter(|(name, _)| register.flag(name) == Some(true));
    bits.fold(0, |bits, (_, bit)| bits | 1 << bit)
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

pub(super) fn sriov(offset: u16, lines: &[Line<'_>]) -> Option<SrIov> {
    let control = register(lines, "IOVCtl")?;
    // Register names below have several words, so they all belong to the status register.
    let rest = register(lines, "IOVSta")?;
    let bars: Option<Vec<Bar>> =
        lines.iter().filter_map(|line| line.text.strip_prefix("Region ")).map(vf_bar).collect();
    Some(SrIov {
        offset,
        enabled: control.flag("Enable")?,
        memory_enabled: control.flag("MSE")?,
        total_vfs: rest.number("Total VFs: ")?,
        num_vfs: rest.number("Number of VFs: ")?,
        vf_device: u16::try_from(rest.hex("Device ID: ")?).ok()?,
        first_vf_offset: rest.number("VF offset: ")?,
        vf_stride: rest.number("stride: ")?,
        vf_bars: bars?,
    })
}

/// Parses `0: Memory at 00000000b0000000 (64-bit, prefetchable)`.
fn vf_bar(text: &str) -> Option<Bar> {
    let (index, rest) = text.split_once(": Memory at ")?;
    let (address, kind) = rest.split_once(" (")?;
    Some(Bar {
        index: index.parse().ok()?,
        kind: BarKind::Memory {
            address: u64::from_str_radix(address, 16).ok()?,
            bits64: kind.starts_with("64-bit"),
            prefetchable: kind.contains(", prefetchable"),
        },
    })
}

pub(super) fn resizable_bar(lines: &[Line<'_>]) -> Option<Vec<ResizableBar>> {
    let bars: Vec<ResizableBar> =
        lines.iter().map(|line| one_bar(&line.text)).collect::<Option<_>>()?;
    (!bars.is_empty()).then_some(bars)
}

/// Parses `BAR 2: current size: 128GB, supported: 64MB 128MB`.
fn one_bar(text: &str) -> Option<ResizableBar> {
    let (bar, rest) = text.strip_prefix("BAR ")?.split_once(": current size: ")?;
    let (current, supported) = rest.split_once(", supported: ").unwrap_or((rest, ""));
    Some(ResizableBar {
        bar: bar.parse().ok()?,
        supported: supported.split_ascii_whitespace().map(size).collect::<Option<_>>()?,
        current: size(current)?,
    })
}

fn size(text: &str) -> Option<u64> {
    const UNITS: [(&str, u32); 5] = [("MB", 20), ("GB", 30), ("TB", 40), ("PB", 50), ("EB", 60)];
    let (number, shift) =
        UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))?;
    let number: u64 = number.parse().ok()?;
    number.checked_mul(1 << shift)
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
        let expected = Ats {
            offset: 0x200,
            enabled: true,
            queue_depth: 32,
            page_aligned: Fact::default(),
            smallest_translation_unit: 8192,
        };
        assert_eq!(with(text, |lines| ats(0x200, lines)), Some(expected));
        assert_eq!(
            with("\t\tATSCap:\tInvalidate Queue Depth: 00", |lines| ats(0x200, lines)),
            None
        );
    }

    #[test]
    fn reads_errors_of_old_and_new_versions() {
        let old = "UESta:\tDLP- SDES- TLP- FCP- CmpltTO+ CmpltAbrt- UnxCmplt- RxOF- MalfTLP- ECRC- UnsupReq+ ACSViol-\n";
        let all: String =
            ["UESta", "UEMsk", "UESvrt"].iter().map(|name| old.replace("UESta", name)).collect();
        let all = all
            + "CESta:\tRxErr+ BadTLP- BadDLLP- Rollover- Timeout- NonFatalErr+\n\
            CEMsk:\tRxErr- BadTLP- BadDLLP- Rollover- Timeout- NonFatalErr-";
        let found = with(&all, |lines| aer(0x100, lines)).expect("complete");
        assert_eq!(found.uncorrectable, UncorrectableErrors(1 << 14 | 1 << 20));
        assert_eq!(
            (found.correctable, found.correctable_mask),
            (CorrectableErrors(1 | 1 << 13), CorrectableErrors(0))
        );
        let new = all.replacen(
            "ACSViol-",
            "ACSViol-\n\t UncorrIntErr+ BlockedTLP-\n\tPoisonTLPBlocked- TLPXlatBlocked+",
            1,
        );
        let found = with(&new, |lines| aer(0x100, lines)).expect("complete");
        assert_eq!(found.uncorrectable, UncorrectableErrors(1 << 14 | 1 << 20 | 1 << 22 | 1 << 31));
        assert_eq!(with(&all.replace("CEMsk", "x"), |lines| aer(0x100, lines)), None);
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
        let bar = |index, address, wide| Bar {
            index,
            kind: BarKind::Memory { address, bits64: wide, prefetchable: wide },
        };
        let expected = SrIov {
            offset: 0x180,
            enabled: true,
            memory_enabled: true,
            total_vfs: 16,
            num_vfs: 2,
            vf_device: 0x101e,
            first_vf_offset: 4,
            vf_stride: 1,
            vf_bars: vec![bar(0, 0x3800_0000_0000, true), bar(2, 0xb000_0000, false)],
        };
        assert_eq!(with(text, |lines| sriov(0x180, lines)), Some(expected));
        assert_eq!(
            with(&text.replace("stride: 1, Device ID: 101e", ""), |lines| { sriov(0x180, lines) }),
            None
        );
    }

    #[test]
    fn reads_sizes_of_bars() {
        let text = "\t\tBAR 0: current size: 16MB\n\t\tBAR 2: current size: 128GB, supported: 64MB 1GB 8EB";
        let bar = |bar, current, supported: &[u64]| ResizableBar {
            bar,
            current,
            supported: supported.to_vec(),
        };
        let expected =
            vec![bar(0, 16 << 20, &[]), bar(2, 128 << 30, &[64 << 20, 1 << 30, 8 << 60])];
        assert_eq!(with(text, resizable_bar), Some(expected));
        for text in
            ["", "BAR 0: current size: <unknown>", "BAR 0: current size: 99EB", "<unreadable>"]
        {
            assert_eq!(
                with(text, |lines| resizable_bar(&lines[..usize::from(!text.is_empty())])),
                None,
                "{text}"
            );
        }
    }
}
