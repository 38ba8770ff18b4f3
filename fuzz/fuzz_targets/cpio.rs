//! Any bytes are read as an initramfs without a panic, within memory and time; what is found is written and read back.
//!
//! `cargo +nightly fuzz run cpio fuzz/corpus/cpio fuzz/seeds/cpio`

#![no_main]

use std::cell::Cell;

use gdr::kmod::initramfs::{self, Reading};
use gdr::model::Initramfs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A clock that steps where time would pass.
    let asked = Cell::new(0);
    let reading = Reading {
        path: "image",
        enough: &|| {
            asked.set(asked.get() + 1);
            asked.get() > 1000
        },
    };
    let found = initramfs::read(&mut &*bytes, &reading);
    let text = serde_json::to_string(&found).expect("plain data");
    assert_eq!(serde_json::from_str::<Initramfs>(&text).expect("as it was written"), found);
});
