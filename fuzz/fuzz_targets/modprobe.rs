//! Any files of modprobe.d and any command line are read without a panic; what is kept of a file says the same as the
//! file; and every name comes to an end.
//!
//! `cargo +nightly fuzz run modprobe fuzz/corpus/modprobe fuzz/seeds/modprobe`

#![no_main]

use gdr::kmod::{self, Config};
use gdr::model::Command;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    // Files, and the command line last, parted by a form feed.
    let mut parts: Vec<&str> = text.split('\x0c').collect();
    let words = parts.pop().unwrap_or_default();
    let mut all = Vec::new();
    for part in parts {
        let kept = kmod::kept(part);
        assert_eq!(kmod::kept(&kept), kept);
        let found = kmod::directives("a.conf", part);
        assert_eq!(kmod::directives("a.conf", &kept), found);
        all.extend(found.unwrap_or_default());
    }
    all.extend(kmod::command_line(words));
    let config = Config::new(&all);
    for name in ["nvidia", "nvidia_peermem", "mlx5_core"] {
        let load = config.load(name);
        for found in &load.options {
            if let Command::Options { options, .. } = &found.command {
                for set in kmod::parameters(options) {
                    kmod::nvidia::nearest(&set.name, []);
                    kmod::unsigned(&set.value.unwrap_or_default());
                }
            }
        }
    }
    config.load_for_device("pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00", "nvidia");
});
