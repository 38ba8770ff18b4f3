//! Compares our decoding with lspci (pciutils), and with hand-written values where lspci prints nothing.
//!
//! Both results become maps of names to texts, which must be equal. Inputs are real spaces (`tests/data`, this machine, and the
//! dump named by `GDR_LSPCI_DUMP`, from `lspci -xxxx`) and hand-built ones.

mod dump;
mod lspci;
mod ours;
mod spaces;

use std::collections::BTreeMap;
use std::process::Command;

use gdr::model::Fact;
use gdr::model::config::Acs;
use gdr::pci::{Depth, decode};

/// A decoder's view of one function.
type View = BTreeMap<String, String>;

const H200: &str = include_str!("../../data/h200.hex");
const VIRTIO: &str = include_str!("../../data/virtio-blk.hex");

/// Compares every function of a dump with lspci; returns their number.
fn compare_with_lspci(text: &str) -> usize {
    let theirs = lspci::views(text);
    let spaces = dump::parse(text);
    assert_eq!(spaces.len(), theirs.len(), "lspci shows as many functions as the dump has");
    for ((slot, bytes), theirs) in spaces.iter().zip(&theirs) {
        let config = decode(&bytes.as_slice(), Depth::Full);
        let mut ours = ours::view(&config);
        // lspci shows the second link register set of endpoints only for device 0, function 0.
        if !slot.ends_with(":00.0") && ours.get("express").is_some_and(|it| it.contains("Endpoint"))
        {
            ours.remove("link target");
        }
        assert_eq!(&ours, theirs, "{slot}, left ours, right lspci's");
    }
    spaces.len()
}

#[test]
#[ignore = "needs lspci"]
fn real_spaces_match_lspci() {
    assert_eq!(compare_with_lspci(H200), 1);
    assert_eq!(compare_with_lspci(VIRTIO), 1);
}

#[test]
#[ignore = "needs lspci"]
fn hand_built_spaces_match_lspci() {
    for (name, bytes) in spaces::all() {
        let text = dump::write("01:00.0", &bytes);
        assert_eq!(compare_with_lspci(&text), 1, "{name}");
    }
}

#[test]
#[ignore = "needs lspci"]
fn this_machine_matches_lspci() {
    let out = Command::new("lspci").arg("-xxxx").output().expect("lspci runs");
    let text = String::from_utf8(out.stdout).expect("lspci writes UTF-8");
    compare_with_lspci(&text);
}

#[test]
#[ignore = "needs lspci"]
fn given_dump_matches_lspci() {
    if let Some(path) = std::env::var_os("GDR_LSPCI_DUMP") {
        let text = std::fs::read_to_string(path).expect("GDR_LSPCI_DUMP names a file");
        assert_ne!(compare_with_lspci(&text), 0);
    }
}

#[test]
fn sound_spaces_have_no_remarks() {
    for (name, bytes) in spaces::all() {
        let config = decode(&bytes.as_slice(), Depth::Full);
        assert_eq!(config.failure, [""; 0], "{name}");
    }
    for text in [H200, VIRTIO] {
        for (slot, bytes) in dump::parse(text) {
            let config = decode(&bytes.as_slice(), Depth::Full);
            assert_eq!(config.failure, [""; 0], "{slot}");
        }
    }
}

/// lspci does not print the egress control vector. This port's has 64 bits: 0x80000003, 0x000000a0.
#[test]
fn egress_control_vector_blocks_ports() {
    let (_, bytes) = spaces::all().swap_remove(0);
    let config = decode(&bytes.as_slice(), Depth::Full);
    let mut acs = config.acs.present().expect("the port has ACS").clone();
    assert_eq!(acs.egress_size, 64);
    let blocked = |acs: &Acs| -> Vec<u8> {
        let ports = 0..=u8::MAX;
        ports.filter(|port| acs.egress_blocks(*port) == Fact::Known(true)).collect()
    };
    acs.control.0 |= 1 << 5;
    assert_eq!(blocked(&acs), [0, 1, 31, 37, 39]);
}
