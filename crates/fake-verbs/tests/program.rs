//! A C program compiled with the machine's own verbs.h, so that the layouts do not come from this repository.

use std::process::Command;

use fake_nvml_build::verbs;

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn c_program_with_verbs_h() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    let library = verbs::build().expect("the fake library");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program.c"))
        .arg(library.join("libibverbs.so.1"))
        .output()
        .expect("a C compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let output = Command::new(program)
        .envs(verbs::environment(&library, &verbs::machine("two")))
        .output()
        .expect("it starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
