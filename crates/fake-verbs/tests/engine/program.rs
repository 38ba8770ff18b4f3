//! A program in C, compiled against the machine's own header: what it sees is not laid out by us.

use std::process::Command;

use fake_nvml_build::verbs;

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn a_program_of_verbs_h_finds_what_the_header_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    let library = verbs::build().expect("the simulated library");
    let said = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/engine/program.c"
        ))
        .arg(library.join("libibverbs.so.1"))
        .output()
        .expect("a C compiler");
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let said = Command::new(program)
        .envs(verbs::environment(&library, &verbs::machine("two")))
        .output()
        .expect("it starts");
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
}
