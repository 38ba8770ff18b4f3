//! Any text is read as what another program printed (lspci, lstopo, rdma_topo) or collected (nvidia-bug-report.sh, sosreport,
//! supportconfig) without a panic, and what it tells can be judged and drawn.
//!
//! `cargo +nightly fuzz run import fuzz/corpus/import fuzz/seeds/import`

#![no_main]

use std::sync::LazyLock;

use gdr::collect::{self, CollectOptions};
use gdr::import::{self, SupportReport};
use gdr::input::Lookahead;
use gdr::model::Facts;
use gdr::pci::PciNames;
use gdr::topo;
use gdr::world::World;
use libfuzzer_sys::fuzz_target;

static NAMES: LazyLock<PciNames> =
    LazyLock::new(|| PciNames::new(None, "devices = []").expect("an empty list"));

fuzz_target!(|bytes: &[u8]| {
    let Some(facts) = facts(bytes) else {
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

fn facts(mut bytes: &[u8]) -> Option<Facts> {
    let text = bytes;
    let mut archive = bytes;
    let _ = import::archived_logs(&mut Lookahead::new(&mut archive), 1 << 16);
    match import::support_report(&mut Lookahead::new(&mut bytes)) {
        Ok(Some(report)) => {
            let printed = report.printed(&NAMES).ok().flatten();
            let options = CollectOptions {
                nvme: true,
                system: true,
                modules: true,
                software: true,
                ..CollectOptions::default()
            };
            let world = World::report(report.files, "a report".to_owned());
            let facts = collect::facts(&world, options);
            Some(match printed {
                Some(printed) => import::add_printed(facts, printed),
                None => facts,
            })
        }
        Ok(None) => import::facts(text, &NAMES).ok().or_else(|| pasted(text)),
        Err(_) => None,
    }
}

/// Output of commands in any order.
fn pasted(text: &[u8]) -> Option<Facts> {
    let report = import::text(text, SupportReport::default()).ok()?;
    let mut facts = report.printed(&NAMES).ok()?.unwrap_or_default();
    report.add_listed(&mut facts);
    Some(facts)
}
