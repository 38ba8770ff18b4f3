//! Files named libcuda.so.1 that hang, crash, or are not libraries at all.

use std::path::Path;
use std::process::Command;

/// Builds a libcuda.so.1 whose `cuInit` does this.
pub fn fake_cuda(directory: &Path, body: &str) {
    let source = directory.join("fake_cuda.rs");
    let text = format!(
        "#[unsafe(no_mangle)]\npub extern \"C\" fn cuInit(_flags: u32) -> i32 {{ {body} }}\n"
    );
    std::fs::write(&source, text).expect("a source file");
    let status = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
        .arg(directory.join("libcuda.so.1"))
        .arg(&source)
        .status();
    assert!(status.expect("rustc starts").success());
}
