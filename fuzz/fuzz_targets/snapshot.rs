//! Any document that parses as a snapshot is examined without a panic, and recorded again says the same.
//!
//! `cargo +nightly fuzz run snapshot`

#![no_main]

use gdr::check::{self, Ctx};
use gdr::collect::{self, CollectOptions};
use gdr::model::Snapshot;
use gdr::profile::Expectations;
use gdr::topo;
use gdr::world::{NetworkQuery, NvmlQuery, VerbsQuery, World};
use libfuzzer_sys::fuzz_target;

const WANT: CollectOptions = CollectOptions {
    nvme: true,
    nvml: NvmlQuery::EVERYTHING,
    system: true,
    modules: true,
    software: true,
    settings: true,
    cuda: true,
    verbs: Some(VerbsQuery { trials: true }),
    network: Some(NetworkQuery { twice: true }),
    mapping: true,
    registration: true,
    initramfs: false,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(bytes) else {
        return;
    };
    let (world, record) = World::snapshot(snapshot).recording();
    let facts = collect::facts(&world, WANT);
    let topology = topo::topology(&facts);
    let expectations = Expectations::of(&[]);
    let findings = check::run(&Ctx::new(&facts, &topology, &expectations));
    assert!(!findings.is_empty());
    let again = World::snapshot(record.finish(String::new()));
    assert_eq!(collect::facts(&again, WANT), facts);
});
