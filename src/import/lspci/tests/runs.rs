//! Several runs in one text, of one machine or of two.

use super::*;

#[test]
fn merges_runs_without_contradictions() {
    let plain = "15:01.0 0604: 8086:352a (rev 04)\n16:00.0 0302: 10de:2335 (rev a1)\n16:00.1 0207: 15b3:1021\n";
    for text in [format!("{plain}\n{MACHINE}"), format!("{MACHINE}{plain}")] {
        let facts = read(&text);
        assert_eq!(place(&facts, "16:00.0"), "pci0000:15/0000:15:01.0");
        assert_eq!(device(&facts, "16:00.1").ids.known().and_then(|ids| ids.device), Some(0x1021));
        assert!(device(&facts, "15:01.0").config.acs.present().is_some());
        assert_eq!(notes(&facts), [""; 0]);
    }
    let other = "15:01.0 PCI bridge: Intel Corporation Device 1111\n\tBus: primary=15, secondary=40, subordinate=40\n\n";
    for text in [format!("{other}{MACHINE}"), format!("{MACHINE}{other}")] {
        let facts = read(&text);
        assert_eq!(place(&facts, "16:00.0"), "pci0000:15/0000:15:01.0", "the larger one is kept");
        assert_eq!(notes(&facts).len(), 1);
        assert!(notes(&facts)[0].contains("ignored"), "{:?}", notes(&facts));
    }
}

#[test]
fn possibly_different_machines_stay_apart() {
    let port = |bdf: &str, below: &str| {
        let line =
            format!("\tBus: primary=00, secondary={below}, subordinate={below}, sec-latency=0");
        format!("{bdf} 0604: 8086:352a\n{line}\n\n")
    };
    let one = port("00:01.0", "01") + "01:00.0 0302: 10de:2330\n\n02:00.0 0108: 144d:a824\n\n";
    let other = port("00:02.0", "03") + "03:00.0 0207: 15b3:1021\n\n";
    for between in ["B$ lspci -vvv\n", "machine B\n", "[...]\n"] {
        let facts = read(&format!("A$ lspci -vvv\n{one}{between}{other}"));
        assert_eq!(place(&facts, "01:00.0"), "pci0000:00/0000:00:01.0", "{between}");
        assert_eq!(place(&facts, "03:00.0"), "pci0000:00?/0000:00:02.0", "{between}");
        assert_eq!(notes(&facts).len(), 1, "{between}");
        assert!(
            notes(&facts)[0].starts_with("lspci, line 10: has no function in common"),
            "{:?}",
            notes(&facts)
        );
    }
    // Standard error and a blank line within a function do not separate runs.
    for between in ["pcilib: sysfs_read_vpd: read failed\n", "\tCapabilities: [40] x\n", ""] {
        let first = port("00:01.0", "01");
        let facts = read(&format!("{first}{between}01:00.0 0302: 10de:2330\n"));
        assert_eq!(place(&facts, "01:00.0"), "pci0000:00/0000:00:01.0", "{between}");
        assert_eq!(notes(&facts), [""; 0], "{between}");
    }
    // A bridge of one machine leads to no function of the other.
    let facts =
        read(&format!("A$ lspci\n18:00.0 0302: 10de:2330\nB$ lspci\n{}", port("17:01.0", "18")));
    assert_eq!(place(&facts, "18:00.0"), "pci0000:18?");
    // Some functions in common, but neither contains the other.
    let facts = read(&format!("{one}B$ lspci\n{}{other}", port("00:01.0", "01")));
    assert!(
        facts.device("03:00.0".parse().expect("an address")).is_some()
            != facts.device("01:00.0".parse().expect("an address")).is_some()
    );
    assert!(notes(&facts)[0].contains("ignored"), "{:?}", notes(&facts));
}

#[test]
fn ignores_parts_above_limit() {
    let text: String = (0..300).map(|n| format!("{n:04x}:01:00.0 0302: 10de:2330\n$\n")).collect();
    let facts = read(&text);
    assert_eq!(facts.devices().len(), 256);
    assert_eq!(notes(&facts).len(), 45, "one note for the separation, 44 for ignored parts");
}

#[test]
fn differing_values_become_unknown() {
    let later = MACHINE.replace(
        "SrcValid+ TransBlk- ReqRedir+ CmpltRedir-",
        "SrcValid- TransBlk- ReqRedir- CmpltRedir-",
    );
    let later = later
        .replace("in use: nvidia\n", "in use: vfio-pci\n")
        .replace("Speed 16GT/s (ok)", "Speed 8GT/s (ok)");
    let facts = read(&format!("before\n{MACHINE}after\n{later}"));
    let port = device(&facts, "15:01.0");
    assert_eq!((&port.config.acs, &port.config.express), (&Fact::default(), &Fact::default()));
    let attributes = port.attributes.expect("attributes");
    assert_eq!(attributes.link, Fact::default());
    assert_eq!(attributes.driver, Fact::Known(Some("pcieport".to_owned())), "the same in both");
    let gpu = device(&facts, "16:00.0").attributes.expect("attributes");
    assert_eq!(gpu.driver, Fact::default());
    assert_eq!(place(&facts, "16:00.0"), "pci0000:15/0000:15:01.0");
    let notes = notes(&facts);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0]
            .contains("0000:15:01.0: contradicts line 2 on its access control, link and limits"),
        "{notes:?}"
    );
    assert!(notes[1].contains("on its driver"), "{notes:?}");
}
