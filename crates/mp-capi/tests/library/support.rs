//! Compiles C programs with the compilers of both MPI libraries, and runs them as two ranks with the simulated CUDA.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fakes::{Driver, cuda, uverbs};
use serde_json::json;
use tempfile::TempDir;

use crate::clib::{built, flags, succeed};

/// The released library, which Cargo builds next to this test.
pub fn shipped() -> PathBuf {
    built().join("deps/libmp_capi.so")
}

/// Compiler flags for our headers and the tests' stubs of CUDA's headers.
pub fn headers() -> Vec<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directories = [
        "include",
        "tests/stubs",
        "../gdsync-capi/include",
        "../gdsync-capi/tests/stubs",
        "../gdrapi-capi/include",
    ];
    let flag = |directory: &&str| format!("-I{}", package.join(directory).display());
    directories.iter().map(flag).collect()
}

/// An MPI library: the suffix of Debian's compilers and launcher.
#[derive(Debug, Clone, Copy)]
pub struct MpiLibrary(&'static str);

pub const OPEN_MPI: MpiLibrary = MpiLibrary("openmpi");
pub const MPICH: MpiLibrary = MpiLibrary("mpich");

/// A compiled program.
pub struct Program {
    path: PathBuf,
    mpi: MpiLibrary,
    directory: TempDir,
}

impl Program {
    /// Compiles a file of tests/c.
    pub fn compile(mpi: MpiLibrary, file: &str) -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("program");
        let (compiler, standard) =
            if file.ends_with(".cc") { ("mpicxx", "-std=c++17") } else { ("mpicc", "-std=gnu11") };
        let compiler = format!("{compiler}.{}", mpi.0);
        let output = Command::new(&compiler)
            .args([standard, "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
            .args(["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"])
            .args(headers())
            .arg("-o")
            .arg(&path)
            .arg(package.join("tests/c").join(file))
            .arg(format!("-L{}", simulated().display()))
            .arg("-lmp_sim")
            .arg(format!("-L{}", simulated_cuda().display()))
            .arg("-l:libcuda.so.1")
            .args(flags())
            .output();
        succeed(&compiler, &output.unwrap_or_else(|error| panic!("{compiler}: {error}")));
        Self { path, mpi, directory }
    }

    /// Runs it as two ranks over the software HCA.
    pub fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        self.launch(&[], arguments, variables)
    }

    /// Runs it as two ranks over libmlx5, each with a NIC in software.
    pub fn run_on_mlx5(&self) -> Output {
        let sysfs = self.directory.path().join("sysfs");
        let nic = uverbs::nic(&sysfs).expect("a NIC");
        let nic =
            nic.iter().map(|(name, value)| format!("{name}={}", value.to_str().expect("text")));
        // Only the ranks have it, and MPI does not use it.
        let prefix: Vec<String> = ["env".to_owned()].into_iter().chain(nic).collect();
        let peers = self.directory.path().join("peers");
        fs::create_dir_all(&peers).expect("a directory");
        let variables = [
            ("MP_HCA", "mlx5"),
            ("FAKE_UVERBS_PEERS", peers.to_str().expect("text")),
            ("UCX_TLS", "self,sm,tcp"),
            // Its hooks bypass the preloaded mmap.
            ("UCX_MEM_MMAP_HOOK_MODE", "none"),
            // The address sanitizer requires to be the first library, but the preloaded fake comes first. That is harmless.
            ("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"),
        ];
        self.launch(&prefix, &[], &variables)
    }

    fn launch(&self, prefix: &[String], arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let machine = self.directory.path().join("machine.json");
        // As an H200.
        let gpu = json!({"memory": 1 << 30, "attributes": {"122": 1, "123": 1}});
        let text = json!({"gpu": gpu, "gpus": [{}, {}]}).to_string();
        fs::write(&machine, text).expect("a machine file");
        let paths = std::env::join_paths([simulated(), simulated_cuda()]).expect("paths");
        let mut command = Command::new(format!("mpirun.{}", self.mpi.0));
        for (name, _) in std::env::vars() {
            if ["MP_", "COMM_", "USE_IB_HCA"].iter().any(|known| name.starts_with(known)) {
                command.env_remove(name);
            }
        }
        command
            .args(["-n", "2"])
            .args(prefix)
            .arg(&self.path)
            .args(arguments)
            .env("LD_LIBRARY_PATH", paths)
            .env("FAKE_CUDA", &machine)
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
            // MPI libraries keep memory until the process ends.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("MP_HCA", "sim")
            .env("MP_TIMEOUT_MS", "60000")
            .envs(variables.iter().copied())
            .output()
            .expect("a launcher")
    }
}

/// The directory of `libmp_sim.so`, the variant for the simulated CUDA.
fn simulated() -> PathBuf {
    built().join("examples")
}

/// The directory of the simulated `libcuda.so.1`.
fn simulated_cuda() -> PathBuf {
    cuda::build(Driver::Current).expect("the simulated CUDA")
}
