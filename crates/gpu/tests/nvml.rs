//! Files that are not NVML. What a library answers is tested with the program that asks, in
//! `tests/gdr/nvml.rs` of the workspace.

use std::path::Path;

use gpu::nvml::{Nvml, OpenError};

fn error(library: &Path) -> OpenError {
    match Nvml::open_file(library) {
        Ok(_) => panic!("{} was opened", library.display()),
        Err(error) => error,
    }
}

#[test]
fn absent_library_is_not_a_failure() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let absent = error(&directory.path().join("libnvidia-ml.so.1"));
    assert!(matches!(absent, OpenError::Absent(_)), "{absent:?}");
    assert!(absent.to_string().contains("No such file"), "{absent}");
}

#[test]
fn invalid_library_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = directory.path().join("libnvidia-ml.so.1");
    std::fs::write(&library, "no ELF header here").expect("a file");
    assert!(error(&library).to_string().starts_with("library_unusable: "));
}

/// libc.so.6 is a library on every machine without NVML's symbols.
#[test]
fn library_without_nvml_symbols() {
    assert!(error(Path::new("libc.so.6")).to_string().starts_with("symbol_missing: nvmlInit_v2: "));
}
