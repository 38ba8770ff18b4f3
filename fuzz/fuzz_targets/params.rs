//! Any text in the place of the driver's parameters, and any registry keys in it, are judged without a panic.
//!
//! `cargo +nightly fuzz run params fuzz/corpus/params fuzz/seeds/params`

#![no_main]

use gdr::check::{self, Ctx};
use gdr::collect::{self, CollectOptions};
use gdr::model::{Recorded, Snapshot};
use gdr::profile::Expectations;
use gdr::topo;
use gdr::world::World;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let file = |text: &str| Recorded { text: Some(text.to_owned()), ..Recorded::default() };
    let directory = |names: &[&str]| Recorded {
        names: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..Recorded::default()
    };
    let mut snapshot = Snapshot::default();
    for (path, recorded) in [
        ("/proc/driver/nvidia/params", file(text)),
        ("/sys/module/nvidia/version", file("580.159.04")),
        ("/proc/cmdline", file("ro")),
        ("/etc/modprobe.d", directory(&[])),
        ("/sys/bus/pci/devices", directory(&[])),
    ] {
        snapshot.files.insert(path.to_owned(), recorded);
    }
    let world = World::snapshot(snapshot);
    let want = CollectOptions {
        system: true,
        modules: true,
        software: true,
        settings: true,
        ..CollectOptions::default()
    };
    let facts = collect::facts(&world, want);
    let topology = topo::topology(&facts);
    let expectations = Expectations::of(&[]);
    let findings = check::run(&Ctx::new(&facts, &topology, &expectations));
    assert!(!findings.is_empty());
});
