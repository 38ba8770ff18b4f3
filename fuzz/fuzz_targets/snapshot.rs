//! Any document that parses as a snapshot is examined without a panic, and recorded again says the same.
//!
//! `cargo +nightly fuzz run snapshot`

#![no_main]

use gdr::check::{self, Ctx};
use gdr::collect::{self, CollectOptions};
use gdr::model::Snapshot;
use gdr::profile::Expectations;
use gdr::topo;
use gdr::world::World;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(bytes) else {
        return;
    };
    let (world, record) = World::snapshot(snapshot).recording();
    let facts = collect::facts(&world, CollectOptions::everything(true));
    let topology = topo::topology(&facts);
    let expectations = Expectations::of(&[]);
    let findings = check::run(&Ctx::new(&facts, &topology, &expectations));
    assert!(!findings.is_empty());
    let again = World::snapshot(record.finish(String::new()));
    assert_eq!(collect::facts(&again, CollectOptions::everything(true)), facts);
});
