//! What the tests of imported dumps share: classes by address, limits on a run, and a writer of rdma_topo's format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::layout::modalias;
use super::machine::{Machine, corpus, names};
use super::run::{Gdr, Run};

/// Class by two addresses, the lower first; none where gdr does not know it.
pub type Classes = BTreeMap<(String, String), Option<String>>;

/// Every machine of this repository, and the recorded ones where they are, each laid out.
pub fn everywhere() -> Vec<(String, Machine, TempDir)> {
    let mut machines: Vec<(String, Machine)> =
        names().into_iter().map(|n| (n.clone(), Machine::load(&n))).collect();
    for path in corpus() {
        machines.push((path.display().to_string(), Machine::from_corpus(&path)));
    }
    let laid_out = machines.into_iter().map(|(name, machine)| {
        let dir = machine.laid_out();
        (name, machine, dir)
    });
    laid_out.collect()
}

/// The classes that `gdr topo` gives; none where it lists no device.
pub fn classes(gdr: Gdr) -> Option<Classes> {
    let run = gdr.args(["topo", "--format", "json", "--nvme", "--pci"]).run();
    if run.code != 0 {
        return None;
    }
    let document: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let devices = document["devices"].as_array().expect("devices");
    let named: Vec<(&str, &str)> = devices
        .iter()
        .filter_map(|device| Some((device["name"].as_str()?, device["bdf"].as_str()?)))
        .collect();
    let mut classes = Classes::new();
    for (a, from) in &named {
        for (b, to) in named.iter().filter(|(_, to)| from < to) {
            let class = document["matrix"][a][b].as_str().map(str::to_owned);
            classes.insert(((*from).to_owned(), (*to).to_owned()), class);
        }
    }
    Some(classes)
}

/// How many of a machine's pairs a dump knows. None of them may have another class.
pub fn agreement(what: &str, machine: &Classes, dump: &Classes) -> usize {
    let mut known = 0;
    for (pair, class) in dump {
        let (Some(class), Some(true_class)) = (class, machine.get(pair)) else {
            continue;
        };
        if class == "NODE or SYS" {
            let is_either =
                true_class.as_ref().is_some_and(|class| class == "NODE" || class == "SYS");
            assert!(is_either, "{what}: {pair:?}: {true_class:?}");
            continue;
        }
        assert_eq!(Some(class), true_class.as_ref(), "{what}: {pair:?}");
        known += 1;
    }
    known
}

/// `gdr --from FILE topo` with at most 256 MiB of its own memory.
pub fn limited(file: &Path) -> Run {
    let output = Command::new("prlimit")
        .args(["--data=268435456", env!("CARGO_BIN_EXE_gdr"), "--from"])
        .arg(file)
        .arg("topo")
        .stdin(Stdio::null())
        .output()
        .expect("prlimit starts");
    Run {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// What `rdma_topo dump` prints of a laid-out machine. The format is defined by class SysfsDevice and cmd_dump of
/// kernel-boot/rdma_topo in rdma-core: a list, sorted by address, of each function's files, without those whose class is
/// a host bridge, an ISA bridge or a system peripheral; bytes are deflated (RFC 1950) and written in base64.
pub fn rdma_topo(machine: &Machine, root: &Path) -> Vec<u8> {
    const LEFT_OUT: [u32; 6] = [0x06_0000, 0x06_0100, 0x08_0700, 0x08_8000, 0x11_0100, 0x13_0000];
    let listed = machine.devices.iter().filter(|d| !LEFT_OUT.contains(&d.class.0));
    let items = listed.map(|device| {
        let here = root.join(machine.place(device));
        let text = |name: &str| std::fs::read_to_string(here.join(name)).ok();
        let number = |text: String| text.trim().parse::<i64>().ok();
        let link = std::fs::read_link(here.join("iommu_group")).ok();
        let group = link.and_then(|path| path.file_name()?.to_str()?.parse::<i64>().ok());
        let mut subsystems = serde_json::Map::new();
        for class in ["drm", "infiniband", "net", "nvme"] {
            if let Ok(entries) = std::fs::read_dir(here.join(class)) {
                let entries = entries.filter_map(Result::ok);
                let found: Vec<String> =
                    entries.filter_map(|e| e.file_name().into_string().ok()).collect();
                subsystems.insert(class.to_owned(), json!(found));
            }
        }
        let mut item = json!({
            "realpath": here.display().to_string(),
            "config": packed(&std::fs::read(here.join("config")).expect("config")),
            "iommu_group": group,
            "modalias": modalias(device),
            "numa_node": text("numa_node").and_then(number),
            "subsystems": subsystems,
        });
        if let Ok(vpd) = std::fs::read(here.join("vpd")) {
            item["vpd"] = Value::from(packed(&vpd));
        }
        item
    });
    serde_json::to_vec_pretty(&items.collect::<Vec<_>>()).expect("JSON")
}

/// Bytes in one stored block (RFC 1951, 3.2.4) with zlib's frame around it (RFC 1950), in base64 (RFC 4648).
pub(super) fn packed(bytes: &[u8]) -> String {
    let length = u16::try_from(bytes.len()).expect("at most 65535 bytes");
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    let head = [&[0x78, 0x01, 0x01][..], &length.to_le_bytes(), &(!length).to_le_bytes()].concat();
    let frame = [&head, bytes, &(b << 16 | a).to_be_bytes()].concat();
    base64(&frame)
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = bits >> (18 - 6 * at) & 63;
            text.push(if at > three.len() { '=' } else { char::from(ALPHABET[digit as usize]) });
        }
    }
    text
}

/// A file in a directory of its own.
pub fn file(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}
