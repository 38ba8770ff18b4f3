//! The fake of SIOCETHTOOL (`ethtool.c`): statistics of network interfaces from a file.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles it, for LD_PRELOAD.
pub fn fake_ethtool(directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/ethtool.c");
    let library = directory.join("ethtool.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    assert!(compiled.expect("a C compiler").success());
    library
}
