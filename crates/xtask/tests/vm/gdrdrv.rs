//! gdr with a fake gdrdrv driver.

use std::fs;
use std::path::PathBuf;

use crate::{built, compiled, in_machine, root};

/// The program that tests the fake gdrdrv against the driver's ABI.
fn exercise() -> PathBuf {
    let sources = root().join("tests/vm/gdrdrv-fake");
    compiled("exercise", &sources, &["exercise.c", "ask.c"], &[])
}

#[test]
#[ignore = "needs qemu-system-x86_64, root, gcc-12 and make"]
fn fake_speaks_gdrdrv_abi() {
    let files = in_machine("gdrdrv", "gdrdrv", vec![exercise()]);
    // The script judges; this checks that its output is complete.
    let text = fs::read_to_string(files.join("exercise.txt")).expect("the output file");
    let parts: Vec<_> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(
        parts.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["all", "bar", "cached"],
        "{text}"
    );
    for (_, found) in parts {
        assert!(found.ends_with(" claims held, 0 did not"), "{text}");
    }
}

#[test]
#[ignore = "needs qemu-system-x86_64, root, gcc-12 and make"]
fn backend_works_with_all_module_versions() {
    let files = in_machine("gdrdrv", "gdrdrv-backend", vec![built("examples/module")]);
    // The script judges; this checks that each version of the module answered.
    let text = fs::read_to_string(files.join("module.txt")).expect("the output file");
    for version in ["2.0", "2.3", "2.4", "2.5", "2.6"] {
        assert!(text.contains(&format!("version {version} attributes")), "{text}");
    }
}
