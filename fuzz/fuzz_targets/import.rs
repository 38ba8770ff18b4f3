//! Any text is read as what another program printed (lspci, lstopo, rdma_topo) without a panic, and what it tells can be judged
//! and drawn.
//!
//! `cargo +nightly fuzz run import fuzz/corpus/import fuzz/seeds/import`

#![no_main]

use std::sync::LazyLock;

use gdr::import;
use gdr::pci::PciNames;
use gdr::topo;
use libfuzzer_sys::fuzz_target;

static NAMES: LazyLock<PciNames> =
    LazyLock::new(|| PciNames::new(None, "devices = []").expect("an empty list"));

fuzz_target!(|bytes: &[u8]| {
    let Ok(facts) = import::facts(bytes, &NAMES) else {
        return;
    };
    let topology = topo::topology(&facts);
    for a in 0..topology.rows.len().min(4) {
        for b in 0..topology.rows.len().min(4) {
            // An error is words for the user.
            let _ = topology.between(a, b);
        }
    }
});
