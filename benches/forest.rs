//! How long `gdr topo` takes on a machine with thousands of PCI functions, and whether it grows in proportion.
//!
//! A synthetic forest is laid out as files and the release binary reads, classifies and prints it as JSON. Run with
//! `cargo bench --bench forest`; figures are kept in docs/measured.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SIZES: [usize; 5] = [512, 1024, 2048, 4096, 8192];
const RUNS: usize = 11;
/// Functions in one domain: a root port, a switch's upstream port, its downstream ports, and endpoints.
const DOMAIN: usize = 64;
const DOWNSTREAM: usize = 16;
/// Domains whose first two endpoints are a GPU and a NIC.
const PAIRS: usize = 8;
/// Address space that the whole program may have: more than the memory it may use.
const MAX_KIB: usize = 64 * 1024;

fn main() {
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| writeln!(out, "{line}").expect("standard output");
    say(format!("{:>8} {:>12} {:>12} {:>14}", "devices", "median ms", "fastest ms", "µs a device"));
    for size in SIZES {
        let root = tempfile::tempdir().expect("a temporary directory");
        lay_out(root.path(), size);
        let mut times: Vec<Duration> = (0..=RUNS).map(|_| run(root.path())).skip(1).collect();
        times.sort_unstable();
        let (median, fastest) = (times[RUNS / 2], times[0]);
        let each = median.as_secs_f64() * 1e6 / size as f64;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        say(format!("{size:>8} {:>12.1} {:>12.1} {each:>14.1}", ms(median), ms(fastest)));
        if size == 4096 {
            let fits = within(root.path(), MAX_KIB);
            say(format!(
                "         within {MAX_KIB} KiB of address space: {}",
                if fits { "yes" } else { "NO" }
            ));
        }
    }
}

fn gdr(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gdr"));
    command.args(["topo", "--format", "json", "--sysroot"]).arg(root).stdout(Stdio::null());
    command
}

fn run(root: &Path) -> Duration {
    let start = Instant::now();
    let status = gdr(root).status().expect("gdr starts");
    assert!(status.success(), "gdr failed: {status}");
    start.elapsed()
}

fn within(root: &Path, kib: usize) -> bool {
    let script =
        format!("ulimit -v {kib}; exec \"$0\" topo --format json --sysroot \"$1\" >/dev/null");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_gdr")])
        .arg(root)
        .status()
        .expect("a shell")
        .success()
}

/// Domains of one switch each; every function has `config` (header, PCI Express capability) and `numa_node`.
fn lay_out(root: &Path, size: usize) {
    let links = root.join("sys/bus/pci/devices");
    let rdma = root.join("sys/class/infiniband");
    for directory in [
        &links,
        &rdma,
        &root.join("sys/devices/system/node/node0"),
        &root.join("sys/devices/system/node/node1"),
    ] {
        fs::create_dir_all(directory).expect("a directory");
    }
    for node in 0..2 {
        let cpus = format!("{}-{}\n", node * 64, node * 64 + 63);
        fs::write(root.join(format!("sys/devices/system/node/node{node}/cpulist")), cpus)
            .expect("a file");
    }
    for number in 0..size / DOMAIN {
        let domain = Domain { root, links: &links, number };
        let port = domain.function(&domain.top(), 0, 0, Part::Port(4));
        let switch = domain.function(&port, 1, 0, Part::Port(5));
        let mut endpoints = 0;
        for slot in 0..DOWNSTREAM {
            let below = domain.function(&switch, 2, slot, Part::Port(6));
            let share = (DOMAIN - 2 - DOWNSTREAM) / DOWNSTREAM
                + usize::from(slot < (DOMAIN - 2) % DOWNSTREAM);
            for function in 0..share {
                let part = match (number < PAIRS, slot, function) {
                    (true, 0, 0) => Part::Gpu,
                    (true, 1, 0) => Part::Nic,
                    _ => Part::Nvme,
                };
                let place = domain.function(&below, 3 + slot, function, part);
                if matches!(part, Part::Nic) {
                    let device = place.join(format!("infiniband/mlx5_{number}"));
                    fs::create_dir_all(&device).expect("a directory");
                    symlink(&place, device.join("device")).expect("a link");
                    symlink(relative(root, &device), rdma.join(format!("mlx5_{number}")))
                        .expect("a link");
                }
                endpoints += 1;
            }
        }
        assert_eq!(endpoints + 2 + DOWNSTREAM, DOMAIN);
    }
}

#[derive(Clone, Copy)]
enum Part {
    /// A bridge with this PCI Express port type.
    Port(u16),
    Gpu,
    Nic,
    Nvme,
}

struct Domain<'a> {
    root: &'a Path,
    links: &'a Path,
    number: usize,
}

impl Domain<'_> {
    fn top(&self) -> PathBuf {
        self.root.join(format!("sys/devices/pci{:04x}:00", self.number))
    }

    fn function(&self, above: &Path, bus: usize, slot: usize, part: Part) -> PathBuf {
        let (device, function) = match part {
            Part::Port(_) => (slot, 0),
            _ => (0, slot),
        };
        let name = format!("{:04x}:{bus:02x}:{device:02x}.{function:x}", self.number);
        let place = above.join(&name);
        fs::create_dir_all(&place).expect("a directory");
        fs::write(place.join("config"), config(part)).expect("a file");
        fs::write(place.join("numa_node"), format!("{}\n", self.number % 2)).expect("a file");
        symlink(relative(self.root, &place), self.links.join(name)).expect("a link");
        place
    }
}

/// The target of a link in `sys/X/Y/Z` to a place below the root.
fn relative(root: &Path, place: &Path) -> PathBuf {
    let inner = place.strip_prefix(root.join("sys")).expect("below the root");
    let up = if inner.to_string_lossy().contains("infiniband") { "../.." } else { "../../.." };
    Path::new(up).join(inner)
}

/// Header and PCI Express capability at 0x40 behind two others, as devices have them.
fn config(part: Part) -> Vec<u8> {
    let mut space = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    let (ids, class, kind) = match part {
        Part::Port(kind) => ([0x00, 0x10, 0x30, 0xc0], [0x00, 0x04, 0x06], kind),
        Part::Gpu => ([0xde, 0x10, 0x30, 0x23], [0x00, 0x02, 0x03], 0),
        Part::Nic => ([0xb3, 0x15, 0x21, 0x10], [0x00, 0x00, 0x02], 0),
        Part::Nvme => ([0x4d, 0x14, 0x24, 0xa8], [0x02, 0x08, 0x01], 0),
    };
    put(0x00, &ids);
    put(0x06, &[0x10, 0x00]);
    put(0x09, &class);
    put(0x0e, &[u8::from(matches!(part, Part::Port(_)))]);
    put(0x34, &[0x50]);
    // Power management, then MSI, then PCI Express version 2 with a link of 32 GT/s, 16 lanes.
    put(0x50, &[0x01, 0x60]);
    put(0x60, &[0x05, 0x70]);
    put(0x70, &[0x10, 0x00]);
    put(0x72, &(2 | kind << 4).to_le_bytes());
    put(0x7c, &(5_u32 | 16 << 4).to_le_bytes());
    put(0x82, &(5_u16 | 16 << 4).to_le_bytes());
    space
}
