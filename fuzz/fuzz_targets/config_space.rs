//! Any bytes decode, at every depth, without a panic, and a lesser depth never knows better than a greater one.
//!
//! `cargo +nightly fuzz run config_space`

#![no_main]

use gdr::pci::{Depth, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let header = decode(&bytes, Depth::Header);
    let express = decode(&bytes, Depth::Express);
    let full = decode(&bytes, Depth::Full);
    assert_eq!(header.header, express.header);
    if express.express.present().is_some() {
        assert_eq!(express.express, full.express);
    }
    if full.header.known().is_none() {
        assert!(full.express.known().is_none() && full.acs.known().is_none());
        assert!(!full.failure.is_empty());
    }
});
