//! `gdr probe rdma` as one of two sides, whose NICs are simulated, each in its own process.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use fakes::verbs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{Gdr, merge};

/// A short probe of host memory by one simulated NIC.
const RDMA: [&str; 9] =
    ["probe", "rdma", "--memory", "host", "--device", "mlx5_0", "--quick", "--size", "4096"];
/// The same of the curves, with a simulated GPU.
const TRANSFER: [&str; 8] =
    ["probe", "transfer", "--sim", "--device", "mlx5_0", "--quick", "--size", "4096"];

/// One side, which ends with the test.
pub struct Side {
    child: Child,
    err: BufReader<std::process::ChildStderr>,
    _directory: TempDir,
}

/// What a side that listens prints for the other.
pub struct Invitation {
    pub secret: String,
    pub address: String,
}

/// What a side printed, and its exit status, as a shell sees it.
pub struct Ended {
    pub out: String,
    pub err: String,
    pub code: i32,
}

impl Side {
    /// One with these variables and options besides, on a machine with this merge patch.
    pub fn start(patch: &Value, environment: &[(&str, &str)], options: &[&str]) -> Self {
        Self::start_in(Path::new("/"), patch, environment, options)
    }

    /// The same, in this directory.
    pub fn start_in(
        working: &Path,
        patch: &Value,
        environment: &[(&str, &str)],
        options: &[&str],
    ) -> Self {
        Self::start_probe(working, patch, environment, &[&RDMA[..], options].concat())
    }

    fn start_probe(
        working: &Path,
        patch: &Value,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("verbs.json");
        let text = fs::read_to_string(verbs::machine("two")).expect("a machine");
        let mut machine: Value = serde_json::from_str(&text).expect("JSON");
        merge(&mut machine, patch);
        fs::write(&file, machine.to_string()).expect("a file");
        let library = verbs::build().expect("the simulated library");
        let gdr = verbs::environment(&library, &file)
            .into_iter()
            .fold(Gdr::new(), |gdr, (name, value)| gdr.env(name, value));
        let gdr = environment.iter().fold(gdr, |gdr, (name, value)| gdr.env(name, value));
        let mut command = gdr.args(arguments).command();
        let mut child = command
            .current_dir(working)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let err = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, err, _directory: directory }
    }

    /// One that listens, and the command that it prints for the other side.
    pub fn listening(patch: &Value, options: &[&str]) -> (Self, Invitation) {
        let listening = [&["--listen", "127.0.0.1:0"], options].concat();
        let side = Self::start(patch, &[], &listening);
        side.invitation(" gdr probe rdma ")
    }

    /// The same with `gdr probe transfer`.
    pub fn listening_for_transfers(patch: &Value, options: &[&str]) -> (Self, Invitation) {
        let arguments = [&TRANSFER[..], &["--listen", "127.0.0.1:0"], options].concat();
        let side = Self::start_probe(Path::new("/"), patch, &[], &arguments);
        side.invitation(" gdr probe transfer ")
    }

    fn invitation(mut self, command: &str) -> (Self, Invitation) {
        let side = &mut self;
        let line = side.line();
        assert!(line.starts_with("gdr: listening at 127.0.0.1:"), "{line}");
        let line = side.line();
        let command =
            line.strip_prefix("gdr: GDR_PROBE_SECRET=").and_then(|rest| rest.split_once(command));
        let (secret, address) = command.unwrap_or_else(|| panic!("{line}"));
        let invitation = Invitation { secret: secret.to_owned(), address: address.to_owned() };
        (self, invitation)
    }

    /// One that does what it was invited to, with `gdr probe transfer`.
    pub fn invited_to_transfers(invitation: &Invitation, patch: &Value, options: &[&str]) -> Self {
        let environment = [("GDR_PROBE_SECRET", invitation.secret.as_str())];
        let arguments = [&TRANSFER[..], options, &[invitation.address.as_str()]].concat();
        Self::start_probe(Path::new("/"), patch, &environment, &arguments)
    }

    /// One that does what it was invited to.
    pub fn invited(invitation: &Invitation, patch: &Value, options: &[&str]) -> Self {
        let environment = [("GDR_PROBE_SECRET", invitation.secret.as_str())];
        Self::start(patch, &environment, &[options, &[invitation.address.as_str()]].concat())
    }

    /// The next line of standard error.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.err.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// It goes on, and has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// The child that touches the NIC.
    pub fn inner(&self) -> Option<Pid> {
        let path = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = fs::read_to_string(path).expect("a process");
        children.split_whitespace().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?))
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
        self.err.read_to_string(&mut err).expect("text");
        let status = self.child.wait().expect("a status");
        assert!(!err.contains("panicked"), "{err}");
        Ended {
            out: out.split_whitespace().collect::<Vec<_>>().join(" "),
            err,
            code: (status.code()).or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1),
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
