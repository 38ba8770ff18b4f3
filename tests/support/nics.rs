//! `gdr probe rdma` against the fakes of libibverbs and libcuda.

use std::fs;
use std::path::{Path, PathBuf};

use fakes::{Driver, cuda, verbs};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Gdr, Run, merge};

/// Memory of the host, from one NIC to itself and to another.
pub const HOST: [&str; 4] = ["--memory", "host", "--device", "mlx5_0"];
pub const TWO: [&str; 6] = ["--memory", "host", "--device", "mlx5_0", "--remote-device", "mlx5_1"];

/// A machine of simulated NICs, and of simulated GPUs where it has some.
pub struct Bench {
    pub directory: TempDir,
    libraries: Vec<PathBuf>,
}

impl Bench {
    /// The NICs of this machine with a merge patch.
    pub fn of(machine: &str, patch: &Value) -> Self {
        let bench = Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
            libraries: vec![verbs::build().expect("the simulated libibverbs")],
        };
        bench.write("verbs.json", &verbs::machine(machine), patch);
        bench
    }

    /// With a fake libmlx5 and libefa too, for Data Direct and EFA.
    pub fn with_providers(mut self) -> Self {
        self.libraries[0] = verbs::build_with_providers().expect("the simulated providers");
        self
    }

    /// With two GPUs beside them.
    pub fn with_gpus(mut self, patch: &Value) -> Self {
        self.libraries.push(cuda::build(Driver::Current).expect("the simulated libcuda"));
        self.write("cuda.json", &cuda::machine("two"), patch);
        self
    }

    pub fn write(&self, name: &str, machine: &Path, patch: &Value) {
        let text = fs::read_to_string(machine).expect("a machine");
        let mut machine: Value = serde_json::from_str(&text).expect("JSON");
        merge(&mut machine, patch);
        fs::write(self.directory.path().join(name), machine.to_string()).expect("a file");
    }

    /// Its library logs registrations and states of queue pairs.
    pub fn logging(self) -> Self {
        let log = json!({"keys": self.log()});
        let machine = self.directory.path().join("verbs.json");
        self.write("verbs.json", &machine, &log);
        self
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("keys")
    }

    /// The lines that the library logged.
    pub fn logged(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log()).expect("a log");
        let line = |line: &str| serde_json::from_str(line).expect("JSON");
        text.lines().map(line).collect()
    }

    /// The access flags of all registrations, in order.
    pub fn registrations(&self) -> Vec<u64> {
        let lines = self.logged().into_iter();
        let registered = lines.filter(|line| !line["registered"].is_null());
        registered.map(|line| line["access"].as_u64().expect("access flags")).collect()
    }

    pub fn gdr(&self) -> Gdr {
        self.on(Gdr::new())
    }

    /// This run of gdr, on the machine.
    pub fn on(&self, gdr: Gdr) -> Gdr {
        self.under(gdr).args(["probe", "rdma"])
    }

    /// The same, for any probe.
    pub fn under(&self, gdr: Gdr) -> Gdr {
        let paths = std::env::join_paths(&self.libraries).expect("no colon in a path");
        let gdr = gdr
            .env("LD_LIBRARY_PATH", paths)
            .env("FAKE_VERBS", self.directory.path().join("verbs.json"));
        match self.libraries.len() {
            1 => gdr,
            _ => gdr.env("FAKE_CUDA", self.directory.path().join("cuda.json")),
        }
    }

    /// A short probe with these options besides.
    pub fn probe(&self, options: &[&str]) -> Report {
        let run = self.gdr().args(SHORT).args(options).args(["--format", "json"]).run();
        Report::of(&run)
    }
}

pub const SHORT: [&str; 3] = ["--quick", "--size", "8,65536"];

pub struct Report {
    pub code: i32,
    pub value: Value,
}

impl Report {
    pub fn of(run: &Run) -> Self {
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        Self {
            code: run.code,
            value: serde_json::from_str(&run.stdout)
                .unwrap_or_else(|error| panic!("{error}: {} {}", run.stdout, run.stderr)),
        }
    }

    pub fn results(&self) -> &[Value] {
        self.value["results"].as_array().expect("results")
    }

    pub fn ends(&self) -> &[Value] {
        self.value["ends"].as_array().expect("ends")
    }

    pub fn named(&self, name: &str) -> Vec<&Value> {
        self.results().iter().filter(|result| result["name"] == name).collect()
    }

    /// The reason of the last result, which is why there are no more.
    pub fn reason(&self) -> &str {
        let last = self.results().last().expect("a result");
        assert_eq!(
            (&last["verdict"], &last["required"], self.code),
            (&json!("impossible"), &json!(true), 1),
            "{last}"
        );
        last["reason"].as_str().expect("a reason")
    }

    /// What became of a memory path at the local end.
    pub fn memory_path(&self, memory_path: &str) -> (&str, &str) {
        let memory_paths = self.ends()[0]["memory_paths"].as_array().expect("memory_paths");
        let found =
            memory_paths.iter().find(|choice| choice["backend"] == memory_path).expect(memory_path);
        let text = |key: &str| found[key].as_str().expect("text");
        (text("outcome"), text("why"))
    }
}
