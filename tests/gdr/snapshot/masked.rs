//! A masked snapshot contains no private data and gives the same conclusions.

use super::*;

/// Each kind of private data in this machine's files.
const NAMES: &[(&str, &str)] = &[
    ("host", "hopper-node17"),
    ("domain", "cluster.example.org"),
    ("user", "jdoe"),
    ("UUID of a GPU", "GPU-6f1c2a3b-4d5e-6f70-8192-a3b4c5d6e7f8"),
    ("UUID of a disk", "9c1e4f6a-0b2d-4c3e-8f5a-7b6c8d9e0f1a"),
    ("GUID of a node", "9803:9b03:0067:ab12"),
    ("MAC", "b8:3f:d2:9a:4c:01"),
    ("IPv4", "10.31.7.212"),
    ("IPv6", "2a01:4f8:c0c:1234::77"),
    // The capability's bytes, and lspci's notation.
    ("serial number", "5634120000a1b2c3"),
];

#[test]
fn masked_snapshot_has_no_private_data_and_same_conclusions() {
    let (dir, _) = recorded("h200-x2", &[]);
    let root = dir.path().join("root");
    let [host, domain, user, gpu, disk, guid, mac, v4, v6, _serial] =
        std::array::from_fn(|at| NAMES.get(at).map_or("", |(_, name)| name));
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    put("proc/sys/kernel/hostname", &format!("{host}\n"));
    let boot = format!(
        "BOOT_IMAGE=/vmlinuz root=UUID={disk} ip={v4}::10.31.7.1:255.255.255.0:{host}.{domain}:eth0 BOOTIF=01-{} \
         nfsroot=[{v6}]:/home/{user}/root intel_iommu=on iommu=pt node={guid} mac={mac}\n",
        mac.replace(':', "-")
    );
    put("proc/cmdline", &boot);
    let information = fs::read_dir(root.join("proc/driver/nvidia/gpus"))
        .expect("GPUs")
        .map(|entry| entry.expect("an entry").path().join("information"))
        .next()
        .expect("a GPU");
    let text = fs::read_to_string(&information).expect("its information");
    let text = text
        .lines()
        .map(|line| {
            if line.starts_with("GPU UUID") {
                format!("GPU UUID: \t {gpu}\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect::<String>();
    fs::write(&information, text).expect("a file");
    // Extended capability 0003 in place of the first one.
    let bdf = information.parent().and_then(Path::file_name).expect("an address").to_owned();
    let config = root.join("sys/bus/pci/devices").join(&bdf).join("config");
    let mut bytes = fs::read(&config).expect("configuration space");
    bytes.resize(4096, 0);
    let next = u32::from_le_bytes(bytes[0x100..0x104].try_into().expect("four bytes"));
    bytes.copy_within(0x100..0x110, 0xf00);
    bytes[0x100..0x104].copy_from_slice(&(3u32 | 1 << 16 | 0xf00 << 20).to_le_bytes());
    bytes[0x104..0x10c].copy_from_slice(&[0x56, 0x34, 0x12, 0, 0, 0xa1, 0xb2, 0xc3]);
    assert_ne!(next, 0, "there was a list");
    fs::write(&config, &bytes).expect("a file");

    let take = |more: &[&str]| {
        let taken = run(&[&["--sysroot", text_of(&root), "snapshot", "-o", "-"], more].concat());
        assert_eq!(taken.code, 0, "{}", taken.stderr);
        taken.stdout
    };
    let (plain, masked) = (take(&[]), take(&["--mask"]));
    let letters = |text: &str| text.to_lowercase().replace([':', '-', '.', '_'], "");
    for (kind, name) in NAMES {
        assert!(letters(&plain).contains(&letters(name)), "{kind} is not in the snapshot at all");
        assert!(!letters(&masked).contains(&letters(name)), "{kind} {name} is left");
    }
    for part in ["node17", "jdoe", "cluster", "31.7", "6f1c2a3b", "4f8:c0c"] {
        assert!(!masked.contains(part), "{part} is left");
    }
    // The same findings for the same functions.
    let conclusions = |document: &str| {
        let file = written(dir.path(), document.as_bytes());
        let report: Value =
            serde_json::from_str(&with(&file, &["doctor", "--format", "json"]).stdout)
                .expect("JSON");
        let findings = report["findings"].as_array().expect("findings").clone();
        findings
            .into_iter()
            .map(|finding| {
                (finding["id"].clone(), finding["outcome"].clone(), finding["subject"].clone())
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(conclusions(&masked), conclusions(&plain));
    assert_eq!(
        with(&written(dir.path(), masked.as_bytes()), &["topo", "--format", "nvidia-smi"]).stdout,
        with(&written(dir.path(), plain.as_bytes()), &["topo", "--format", "nvidia-smi"]).stdout
    );
}
