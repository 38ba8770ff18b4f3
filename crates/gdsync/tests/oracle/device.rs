//! `poll` of gdsync/device.cuh, compiled by a C++ compiler that plays CUDA's: it polls the CQEs that the provider polls.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The program of `gdsync-capi`'s `tests/c/poll.cc`.
pub struct DevicePoller {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
}

/// What `poll` answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// ERROR_TIMEOUT.
    Late,
    /// ERROR_COMPLETION, with the syndrome.
    Failed(u8),
    /// A CQE, and the doorbell record then.
    Done([u8; 4]),
}

impl DevicePoller {
    pub fn new() -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("poll");
        let capi = crates.join("gdsync-capi");
        let headers =
            [capi.join("include"), capi.join("tests/stubs"), crates.join("gdrapi-capi/include")];
        let compiled = Command::new("c++")
            .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&program, &capi.join("tests/c/poll.cc")])
            .args(headers.map(|header| format!("-I{}", header.display())))
            .env_remove("LD_PRELOAD")
            .status();
        assert!(compiled.expect("c++").success());
        let mut child = Command::new(&program)
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("its output");
        Self { child, input, output }
    }

    /// Polls once for CQE number `polled` in these bytes.
    pub fn poll(&mut self, cqes: &[u8], polled: u32) -> Answer {
        let count = u32::try_from(cqes.len() / 64).expect("a queue");
        let head = [count, polled].map(u32::to_ne_bytes).concat();
        let input = self.input.as_mut().expect("an open pipe");
        input.write_all(&[&head, cqes].concat()).expect("it reads");
        let mut found = [[0; 4]; 4];
        self.output.read_exact(found.as_flattened_mut()).expect("it answers");
        let [answer, syndrome, counted, _] = found.map(u32::from_ne_bytes);
        let answer = match answer {
            11 => Answer::Late,
            5 => Answer::Failed(u8::try_from(syndrome).expect("a byte")),
            0 => Answer::Done(found[3]),
            other => panic!("{other}"),
        };
        let next = u32::from(matches!(answer, Answer::Done(_)));
        assert_eq!(counted, polled + next);
        answer
    }
}

impl Drop for DevicePoller {
    fn drop(&mut self) {
        drop(self.input.take());
        // Ignored: it ends with its input.
        let _ = self.child.wait();
    }
}
