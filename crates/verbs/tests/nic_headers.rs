//! Compares the numbers of DCB with the machine's kernel headers (Debian: linux-libc-dev).

use std::fs;
use std::process::Command;

use verbs::nic::layout::{CONSTANTS, OFFSETS};

#[test]
#[ignore = "needs a C compiler, kernel headers"]
fn numbers_match_headers() {
    let expected = CONSTANTS.into_iter().chain(OFFSETS.map(|(name, offset)| (name, offset as u64)));
    let expected: Vec<(&str, u64)> = expected.collect();
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <linux/rtnetlink.h>\n#include <linux/dcbnl.h>\nint main(void) {\n",
    );
    for (name, _) in &expected {
        source += &format!("printf(\"%llu\\n\", (unsigned long long)({name}));\n");
    }
    source += "return 0; }\n";
    let directory = tempfile::tempdir().expect("a directory");
    let (text, program) = (directory.path().join("say.c"), directory.path().join("say"));
    fs::write(&text, source).expect("a source file");
    let compiled =
        Command::new("cc").arg("-o").arg(&program).arg(&text).output().expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("the program runs");
    let values = String::from_utf8(output.stdout).expect("text");
    let found: Vec<u64> = values.lines().map(|line| line.parse().expect("a number")).collect();
    let wanted: Vec<u64> = expected.iter().map(|(_, value)| *value).collect();
    assert_eq!(found, wanted, "{expected:#?}");
}
