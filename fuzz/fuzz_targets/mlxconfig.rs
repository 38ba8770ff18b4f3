//! Any text is read as mlxconfig's without a panic.
//!
//! `cargo +nightly fuzz run mlxconfig fuzz/corpus/mlxconfig fuzz/seeds/mlxconfig`

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some(settings) = gdr::collect::parse_settings(text) {
        for (name, setting) in settings {
            assert!(text.contains(&name) && text.contains(&setting.next));
        }
    }
});
