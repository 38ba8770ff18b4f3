//! A C program compiled with the machine's own verbs.h, so that the layouts do not come from this repository.

use std::path::Path;
use std::process::Command;

use fakes::verbs;

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn c_program_with_verbs_h() {
    run("program.c", "two");
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn c_program_with_efadv_h() {
    run("efa.c", "efa");
}

fn run(source: &str, machine: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    let library = verbs::build_with_providers().expect("the fake library");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source))
        .arg(library.join("libibverbs.so.1"))
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(program)
        .envs(verbs::environment(&library, &verbs::machine(machine)))
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
