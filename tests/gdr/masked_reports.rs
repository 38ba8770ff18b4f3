//! `--mask-key`: a machine has the same masks in the reports of every command, and nothing of what it masks is left in them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Gdr, Machine, Node, merge, scratch};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as usize % end
    }
}

/// A machine whose private names and numbers are random.
struct Private {
    root: TempDir,
    host: String,
    originals: Vec<String>,
}

fn digits(random: &mut Random, count: usize) -> String {
    (0..count).map(|_| char::from(b"0123456789abcdef"[random.below(16)])).collect()
}

fn word(random: &mut Random, start: &str) -> String {
    (0..8).fold(start.to_owned(), |word, _| {
        format!("{word}{}", char::from(b"bcdfghjklmnpqrstvwxz"[random.below(20)]))
    })
}

fn uuid(random: &mut Random) -> String {
    [8, 4, 4, 4, 12].map(|count| digits(random, count)).join("-")
}

fn write(root: &Path, path: &str, text: &str) {
    let at = root.join(path);
    fs::create_dir_all(at.parent().expect("a directory")).expect("directories");
    fs::write(at, text).expect("a file");
}

fn private(random: &mut Random) -> Private {
    let (label, domain) = (word(random, "node"), format!("{}.org", word(random, "site")));
    let (user, serial) = (word(random, "u"), format!("MT{}Q", digits(random, 9).to_uppercase()));
    let address: [usize; 3] = [(); 3].map(|()| random.below(254) + 1);
    let address = format!("10.{}.{}.{}", address[0], address[1], address[2]);
    let hex: String = address
        .split('.')
        .map(|part| format!("{:02x}", part.parse::<u8>().expect("a byte")))
        .collect();
    let gid = format!("0000:0000:0000:0000:0000:ffff:{}:{}", &hex[..4], &hex[4..]);
    let guid = [4; 4].map(|count| digits(random, count)).join(":");
    let mac = [2; 6].map(|count| digits(random, count)).join(":");
    let gpus: Vec<String> = (0..8).map(|_| uuid(random)).collect();
    let nic = json!({"is": "cx7-eth", "net": "eth9", "rdma": {"name": "mlx5_10", "layer": "Ethernet", "gids": [[gid, "RoCE v2", "eth9"]]}});
    let patch = json!({"roots": {"0000:48": {"below": {"48:05.0": {"is": "root-port", "below": {"4b:00.0": nic}}}}}});
    let mut node = Node::good();
    node.machine = Machine::load_changed("hgx-h100-8gpu-8nic", |machine| merge(machine, &patch));
    for (at, gpu) in gpus.iter().enumerate() {
        node.gpu(at)["uuid"] = json!({ "known": format!("GPU-{gpu}") });
    }
    node.nvml["unreachable"] = json!([format!("GPU 9 of {label}: GPU-{}", gpus[0])]);
    let root = node.laid_out();
    let at = root.path();
    write(at, "proc/sys/kernel/hostname", &format!("{label}.{domain}\n"));
    write(at, "sys/class/infiniband/mlx5_10/node_guid", &format!("{guid}\n"));
    write(at, "sys/class/infiniband/mlx5_10/node_desc", &format!("{label} mlx5_10\n"));
    write(at, "sys/class/net/eth9/address", &format!("{mac}\n"));
    write(at, "sys/class/dmi/id/product_serial", &format!("{serial}\n"));
    write(
        at,
        "proc/cmdline",
        &format!("root=/dev/sda1 ip={address} systemd.hostname={label} iommu=pt\n"),
    );
    write(
        at,
        "proc/self/environ",
        &format!(
            "HOME=/home/{user}\0LD_LIBRARY_PATH=/home/{user}/lib:/usr/local/cuda/lib64\0NCCL_NET_PLUGIN=/home/{user}/libx.so\0"
        ),
    );
    let mut originals = vec![label, domain, user, serial, address, gid, guid, mac];
    originals.extend(gpus);
    Private { host: originals[0].clone(), root, originals }
}

/// What the commands report of a machine with this key.
fn reports(root: &Path, key: &str, dir: &Path) -> Vec<(String, String)> {
    let snapshot = dir.join("machine.json").display().to_string();
    let commands: [&[&str]; 11] = [
        &["doctor", "--profile", "all", "--format", "json"],
        &["doctor", "--profile", "all", "--verbose"],
        &["doctor", "--format", "markdown"],
        &["doctor", "--format", "html"],
        &["doctor", "--format", "prometheus"],
        &["topo", "--format", "json"],
        &["topo", "--format", "html"],
        &["topo", "--pairs"],
        &["probe", "host", "--format", "json"],
        &["probe", "p2p"],
        &["snapshot", "-o", &snapshot],
    ];
    let report = |command: &&[&str]| {
        let run = Gdr::new().sysroot(root).args(*command).args(["--mask-key", key]).run();
        assert_ne!(run.code, 2, "{command:?}: {}", run.stderr);
        (command.join(" "), run.stdout + &run.stderr)
    };
    let mut reports: Vec<(String, String)> = commands.iter().map(report).collect();
    reports.push(("snapshot".to_owned(), fs::read_to_string(&snapshot).expect("the snapshot")));
    reports
}

/// The masks of a kind in a text.
fn masks<'t>(text: &'t str, start: &str) -> BTreeSet<&'t str> {
    let masks = text.match_indices(start).map(|(at, _)| {
        let rest = &text[at..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]
    });
    masks.collect()
}

#[test]
#[ignore = "slow: 70 reports"]
fn machine_has_one_mask_in_all_reports() {
    let dir = scratch();
    let key = |name: &str| {
        let file = dir.path().join(name);
        fs::write(&file, format!("the key of the site: {name}")).expect("a key");
        file.display().to_string()
    };
    let (one, two) = (key("one"), key("two"));
    let mut hosts = BTreeSet::new();
    for seed in 0..3 {
        let machine = private(&mut Random(seed));
        // The mask of its host in each report, and those of its GPUs in all.
        let of_key = |key: &str| {
            let text = fs::read(key).expect("the key");
            let host = gdr::model::MaskKey::new(&text).expect("a key").host(&machine.host);
            let mut gpus = BTreeSet::new();
            for (command, text) in reports(machine.root.path(), key, dir.path()) {
                let lower = text.to_lowercase();
                for original in &machine.originals {
                    let is_left = lower.contains(&original.to_lowercase());
                    assert!(!is_left, "{command}: {original} is left");
                }
                let names_host = command.contains("--format json") || command == "snapshot";
                assert!(!names_host || text.contains(&host), "{command}: no {host}");
                // Others were masked before.
                let new = masks(&text, "GPU-").into_iter().filter(|mask| {
                    mask.len() > 30 && !mask.starts_with("GPU-00000000-0000-0000-0000-000000000")
                });
                gpus.extend(new.map(str::to_owned));
            }
            assert_eq!(gpus.len(), 8, "{gpus:?}");
            (host, gpus)
        };
        let (of_one, of_two) = (of_key(&one), of_key(&two));
        assert!(of_one.0 != of_two.0 && of_one.1.is_disjoint(&of_two.1));
        // As a report of a fleet masks it.
        let fleet = dir.path().join(format!("fleet{seed}"));
        fs::create_dir(&fleet).expect("a directory");
        let plain =
            Gdr::new().sysroot(machine.root.path()).args(["doctor", "--format", "json"]).run();
        fs::write(fleet.join("a.json"), plain.stdout).expect("a report");
        let merged = Gdr::new().args(["fleet", "report", "--mask-key", &one]).args([&fleet]).run();
        assert!(merged.stdout.contains(&of_one.0), "{}: {}", of_one.0, merged.stdout);
        assert!(hosts.insert(of_one.0), "two machines have one mask: {}", machine.host);
    }
}

/// The nodes of a job are named in its log alone.
#[test]
fn nodes_of_a_job_have_the_masks_of_their_reports() {
    let dir = scratch();
    let key = dir.path().join("key");
    fs::write(&key, "the key of the site").expect("a key");
    let log = "alpha7:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
        beta9:3:3 [0] NCCL INFO ncclCommInitRank comm 0x3 rank 1 nranks 2 cudaDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
        alpha7:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n\
        alpha7:1:1 [0] misc/socket.cc:50 NCCL WARN socketStartConnect: Connect to 10.20.30.40<41000> failed : Connection refused\n";
    let file = dir.path().join("job.log");
    fs::write(&file, log).expect("a log");
    let host = gdr::model::MaskKey::new(b"the key of the site").expect("a key").host("alpha7");
    for format in ["table", "json", "html", "junit"] {
        let run = Gdr::new()
            .args(["explain", "--no-run", "--format", format, "--mask-key"])
            .args([&key, &file])
            .run();
        for original in ["alpha7", "beta9", "10.20.30.40"] {
            assert!(!run.stdout.contains(original), "{format}: {original}: {}", run.stdout);
        }
        assert!(run.stdout.contains(&host), "{format}: {}", run.stdout);
    }
    let json = Gdr::new()
        .args(["explain", "--no-run", "--format", "json", "--mask-key"])
        .args([&key, &file])
        .run();
    let report: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(report["job"]["nodes"].as_array().map(Vec::len), Some(2), "{report:#}");
}

/// Probes of simulated devices run on this machine, and mask its name too.
#[test]
fn simulated_probes_mask_this_machine() {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let text = "the key of the site";
    let mask = gdr::model::MaskKey::new(text.as_bytes()).expect("a key").host(name.trim());
    let dir = scratch();
    let key = dir.path().join("key");
    fs::write(&key, text).expect("a key");
    for probe in ["copy", "p2p"] {
        let run = Gdr::new();
        let arguments = ["probe", probe, "--quick", "--sim", "--format", "json", "--mask-key"];
        let run = run.args(arguments).args([&key]).run();
        let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(report["host"]["name"], mask.as_str(), "{probe}: {}", run.stderr);
    }
}
