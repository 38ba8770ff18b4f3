//! A rich document, and random documents.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// All private data of [`rich`].
const ORIGINALS: [&str; 19] = [
    "node17",
    "hpc.site.edu",
    "alice",
    "8f2c1a44-9d3e-11ee-b962-0242ac120002",
    "7e1b0933-9d3e-11ee-b962-0242ac120003",
    "ac:1f:6b:12:34:56",
    "9803:9b03:0067:ab12",
    "9a03:9bff:fe67:ab12",
    "10.20.30.40",
    "0a14:1e28",
    "fd00:12:34::1",
    "1653022012345",
    "MT2043X12345",
    "S64DNX0R123456",
    "3f2a9c4b5d6e7f80112233445566778899aabbccddeeff00112233445566aabb",
    "8f2c1a449d3e11eeb9620242ac12ffff",
    "0025385b71b00f5d",
    "filer9",
    "lcy02-amd64-001",
];

fn rich() -> Snapshot {
    let texts = [
        (
            "/proc/cmdline",
            "BOOT_IMAGE=/vmlinuz root=UUID=7e1b0933-9d3e-11ee-b962-0242ac120003 ip=10.20.30.40::10.20.30.1:255.255.255.0:node17:eth0:off nfsroot=filer9:/exports/node17 BOOTIF=01-ac-1f-6b-12-34-56 iommu=pt",
        ),
        ("/proc/sys/kernel/hostname", "node17\n"),
        (
            "/proc/version",
            "Linux version 6.8.0-90-generic (buildd@lcy02-amd64-001) (x86_64-linux-gnu-gcc-13 13.3.0) #91-Ubuntu SMP\n",
        ),
        (
            "/proc/self/cgroup",
            "0::/system.slice/docker-3f2a9c4b5d6e7f80112233445566778899aabbccddeeff00112233445566aabb.scope\n",
        ),
        ("/etc/machine-id", "8f2c1a449d3e11eeb9620242ac12ffff\n"),
        (
            "/etc/modules-load.d/site.conf",
            "# by alice@node17.hpc.site.edu, for NODE17\noptions nvidia NVreg_EnableStreamMemOPs=1\n",
        ),
        ("/sys/class/dmi/id/product_serial", "1653022012345\n"),
        ("/sys/class/dmi/id/product_uuid", "8F2C1A44-9D3E-11EE-B962-0242AC120002\n"),
        (
            "/proc/driver/nvidia/gpus/0000:1a:00.0/information",
            "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-8f2c1a44-9d3e-11ee-b962-0242ac120002\nBus Location: \t 0000:1a:00.0\nVideo BIOS: \t 96.00.89.00.01\n",
        ),
        ("/sys/class/infiniband/mlx5_0/node_guid", "9803:9b03:0067:ab12\n"),
        ("/sys/class/infiniband/mlx5_0/node_desc", "node17 HCA-1\n"),
        ("/sys/class/infiniband/mlx5_0/fw_ver", "28.39.2048\n"),
        (
            "/sys/class/infiniband/mlx5_0/ports/1/gids/0",
            "fe80:0000:0000:0000:9a03:9bff:fe67:ab12\n",
        ),
        (
            "/sys/class/infiniband/mlx5_0/ports/1/gids/1",
            "0000:0000:0000:0000:0000:ffff:0a14:1e28\n",
        ),
        ("/sys/class/net/enxac1f6b123456/address", "ac:1f:6b:12:34:56\n"),
        ("/sys/block/nvme0n1/wwid", "eui.0025385b71b00f5d\n"),
        ("/sys/class/nvme/nvme0/serial", "S64DNX0R123456\n"),
        ("/var/log/x", "alice: node17 has fd00:12:34::1, serial 1653022012345 and MT2043X12345\n"),
    ];
    let mut snapshot = Snapshot::default();
    for (path, text) in texts {
        add_text(&mut snapshot, path, text);
    }
    let link = |target: &str| Recorded { link: Some(target.to_owned()), ..Recorded::default() };
    snapshot
        .files
        .insert("/dev/disk/by-id/nvme-SAMSUNG_S64DNX0R123456".to_owned(), link("../../nvme0n1"));
    snapshot.files.insert(
        "/sys/bus/pci/devices/0000:1a:00.0".to_owned(),
        link("../../../devices/pci0000:15/0000:15:01.0/0000:1a:00.0"),
    );
    let vpd = b"\x82\x04\x00CX-7\x90\x13\x00SN\x0cMT2043X12345RV\x01\x00\x78";
    snapshot.files.insert(
        "/sys/bus/pci/devices/0000:1a:00.0/vpd".to_owned(),
        Recorded { bytes: Some(Hex(vpd.to_vec())), ..Recorded::default() },
    );
    snapshot.host.name = Some("node17".to_owned());
    snapshot.host.source = "/home/alice/node17.json".to_owned();
    snapshot
}

/// A document as one text, with bytes as characters.
fn all_of(snapshot: &Snapshot) -> String {
    let bytes = snapshot.files.values().filter_map(|recorded| recorded.bytes.as_ref());
    let bytes: String =
        bytes.map(|Hex(bytes)| String::from_utf8_lossy(bytes).into_owned()).collect();
    serde_json::to_string(snapshot).expect("JSON") + &bytes
}

#[test]
fn replaces_all_originals() {
    let mut snapshot = rich();
    mask(&mut snapshot, &known());
    assert!(snapshot.masked);
    let lower = all_of(&snapshot).to_lowercase();
    let digits = |text: &str| text.replace([':', '-', '_', '.'], "");
    let bare = digits(&lower);
    for original in ORIGINALS {
        let original = original.to_lowercase();
        assert!(!lower.contains(&original), "{original} is left in {lower}");
        assert!(!bare.contains(&digits(&original)), "{original} is left without separators");
    }
    for stays in [
        "0000:1a:00.0",
        "pci0000:15/0000:15:01.0",
        "28.39.2048",
        "96.00.89.00.01",
        "6.8.0-90-generic",
        "BOOT_IMAGE=/vmlinuz",
        "NVIDIA H200",
        "iommu=pt",
    ] {
        assert!(all_of(&snapshot).contains(stays), "{stays} is gone");
    }
    let once = snapshot.clone();
    mask(&mut snapshot, &known());
    assert_eq!(snapshot, once);
    // Someone else masks it again, knowing other names.
    mask(&mut snapshot, &Known::default());
    assert_eq!(snapshot, once);
}

#[test]
fn one_replacement_per_original() {
    let mut snapshot = rich();
    mask(&mut snapshot, &known());
    let uuid = "00000000-0000-0000-0000-00000000000";
    let of_board = text_of(&snapshot, "/sys/class/dmi/id/product_uuid").trim();
    assert!(of_board.starts_with(uuid), "{of_board}");
    let gpu = text_of(&snapshot, "/proc/driver/nvidia/gpus/0000:1a:00.0/information");
    assert!(gpu.contains(&format!("GPU-{of_board}")), "{gpu}");
    assert!(snapshot.files.contains_key("/sys/class/net/enx020000000001/address"));
    assert_eq!(text_of(&snapshot, "/sys/class/net/enx020000000001/address"), "02:00:00:00:00:01\n");
    let log = text_of(&snapshot, "/var/log/x");
    let host = snapshot.host.name.as_deref().expect("a name");
    assert!(
        log.starts_with(&format!("maskeduser1: {host} has 2001:db8::1, serial MASKED")),
        "{log}"
    );
}

#[test]
fn masking_is_linear() {
    let line = "Nov 21 10:15:00 node17 kernel: nvidia 0000:1a:00.0: ac:1f:6b:12:34:56 at 10.20.30.40 deadbeef:: aaaa:bbbb\n";
    let lines = 2 << 20;
    let mut snapshot = with_text("/var/log/x", &line.repeat(lines / line.len()));
    add_text(&mut snapshot, "/var/log/y", &"a:".repeat(lines / 4));
    add_text(&mut snapshot, "/var/log/z", &"node17x.".repeat(lines / 8));
    let begin = Instant::now();
    mask(&mut snapshot, &known());
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(100), "{took:?}: it is no longer linear");
}

/// Many short candidates in one long word, many names, many `@` signs.
#[test]
fn masking_hostile_text_is_linear() {
    let size = 1 << 18;
    let repeated = |text: &str| text.repeat(size / text.len());
    for text in [
        repeated("0123456789ab-"),
        repeated("a@"),
        repeated("@"),
        repeated("iqn.1993-08.0123456789ab."),
        repeated("serial=ab1"),
        repeated("nvme.0123-"),
        (0..size / 20).map(|n| format!("serial=S{n:09}\n")).collect(),
    ] {
        for path in ["/proc/cmdline", "/var/log/x"] {
            let mut snapshot = with_text(path, &text);
            let begin = Instant::now();
            mask(&mut snapshot, &known());
            let took = begin.elapsed();
            assert!(took < Duration::from_secs(25), "{:.40} in {path}: {took:?}", text);
        }
    }
}

/// Words of all shapes.
const WORD: &str = "[0-9a-f]{2}(:[0-9a-f]{2}){5,8}|[0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9a-f]{12,33}|[a-z]{1,6}@[a-z]{1,6}(\\.[a-z]{2,3}){0,2}|\
    [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|serial=[A-Z0-9]{1,14}|(ip|nfsroot|url)=[a-z0-9:/.]{0,20}|[0-9a-f]{0,4}(:[0-9a-f]{0,4}){1,7}|\
    /home/[a-z]{1,5}|/by-id/[a-z]{3}-[A-Z]{3}_[A-Z0-9]{3,9}(_1)?|UUID=[0-9a-f]{4}-[0-9a-f]{4}|node17[a-z.-]{0,5}";

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn masks_any_text(text in ".{0,60}[0-9a-f:.@/=_-]{0,60}\\PC{0,20}") {
        mask(&mut with_text("/proc/cmdline", &text), &known());
    }

    #[test]
    fn masking_is_idempotent(words in proptest::collection::vec(WORD, 0..6)) {
        // `file` masks twice.
        file("/proc/cmdline", &words.join(" "));
    }

    #[test]
    fn masks_any_bytes(at in 0u64..0x120, bytes in proptest::collection::vec(any::<u8>(), 0..80), name in "config|vpd|x") {
        let path = format!("/sys/{name}");
        let recorded = Recorded {
            parts: Some(vec![part(at, &bytes)]),
            bytes: Some(Hex(bytes.clone())),
            ..Recorded::default()
        };
        let mut snapshot = Snapshot { files: [(path.clone(), recorded)].into(), ..Snapshot::default() };
        mask(&mut snapshot, &known());
        let parts = snapshot.files[&path].parts.as_ref().expect("parts");
        prop_assert_eq!(parts[0].bytes.0.len(), bytes.len());
    }

    #[test]
    fn keeps_pci_addresses(domain in 0u32..0x20000, bus: u8, device in 0u8..32, function in 0u8..8, text in "[ -~]{0,30}") {
        let bdf = crate::model::Bdf { domain, bus, device, function };
        let masked = plain(&format!("{text} {bdf} pci{domain:04x}:{bus:02x}/{bdf}/x {text}"));
        let kept = format!(" {bdf} pci{domain:04x}:{bus:02x}/{bdf}/x ");
        prop_assert!(masked.contains(&kept), "{}", masked);
    }
}
