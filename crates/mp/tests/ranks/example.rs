//! The example of docs/tasks/libmp.md: two processes, found by files.

use std::process::{Command, Stdio};

#[test]
fn two_processes() {
    let text = include_str!("../../examples/two_ranks.rs");
    let page = include_str!("../../../../docs/tasks/libmp.md");
    assert!(page.contains(text), "docs/tasks/libmp.md has other text");
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program.set_file_name("examples");
    program.push("two_ranks");
    let directory = tempfile::tempdir().unwrap();
    let start = |rank: &str| {
        Command::new(&program)
            .arg("sim")
            .envs([("MP_RANK", rank), ("MP_SIZE", "2")])
            .env("MP_DIRECTORY", directory.path().join("ranks"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let ranks = ["0", "1"].map(start);
    for (rank, child) in ranks.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let expected = format!("software HCA (SIMULATED): hello from rank {}\n", 1 - rank);
        assert_eq!(text, expected, "{:?}", String::from_utf8(output.stderr));
    }
}
