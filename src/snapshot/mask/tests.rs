//! Hand-written documents and their masked form.

use super::*;
use crate::model::{LibraryAnswer, NvmlOutcome, Part};

mod command_line;
mod document;
mod names;

fn patterns() -> &'static Patterns {
    PATTERNS.as_ref().expect("patterns that compile")
}

fn known() -> Known {
    Known {
        hosts: vec!["node17.hpc.site.edu".to_owned(), "node17".to_owned()],
        users: vec!["alice".to_owned()],
        ..Known::default()
    }
}

fn with_text(path: &str, text: &str) -> Snapshot {
    let mut snapshot = Snapshot::default();
    add_text(&mut snapshot, path, text);
    snapshot
}

fn add_text(snapshot: &mut Snapshot, path: &str, text: &str) {
    let recorded = Recorded { text: Some(text.to_owned()), ..Recorded::default() };
    snapshot.files.insert(path.to_owned(), recorded);
}

fn add_names(snapshot: &mut Snapshot, path: &str, names: &[&str]) {
    let recorded = Recorded {
        names: Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..Recorded::default()
    };
    snapshot.files.insert(path.to_owned(), recorded);
}

fn text_of<'a>(snapshot: &'a Snapshot, path: &str) -> &'a str {
    snapshot.files[path].text.as_deref().expect("a text")
}

/// A masked file; also checks that masking is idempotent.
fn file(path: &str, text: &str) -> String {
    let mut snapshot = with_text(path, text);
    mask(&mut snapshot, &known());
    let once = snapshot.clone();
    mask(&mut snapshot, &known());
    assert_eq!(snapshot, once, "masked twice: {text}");
    text_of(&once, path).to_owned()
}

fn plain(text: &str) -> String {
    file("/some/file", text)
}

#[test]
fn replacements_keep_shape() {
    patterns();
    for (text, expected) in [
        (
            "GPU UUID: \t GPU-8f2c1a44-9d3e-11ee-b962-0242ac120002\n",
            "GPU UUID: \t GPU-00000000-0000-0000-0000-000000000001\n",
        ),
        (
            "MIG-5A1B2C3D-9d3e-11ee-b962-0242ac120002/1",
            "MIG-00000000-0000-0000-0000-000000000001/1",
        ),
        ("8f2c1a449d3e11eeb9620242ac120002", "00000000000000000000000000000001"),
        (
            "/kubepods/burstable/pod8f2c1a44_9d3e_11ee_b962_0242ac120002/x",
            "/kubepods/burstable/pod00000000_0000_0000_0000_000000000001/x",
        ),
        ("ac:1F:6b:12:34:56 dev", "02:00:00:00:00:01 dev"),
        ("BOOTIF=01-ac-1f-6b-12-34-56 ro", "BOOTIF=01-02-00-00-00-00-01 ro"),
        ("ifname=bond0:ac:1f:6b:12:34:56", "ifname=bond0:02:00:00:00:00:01"),
        ("enxac1f6b123456: up, mac=ac1f6b123456", "enx020000000001: up, mac=020000000001"),
        ("addr 10.20.30.40/24, 10.20.30.41:80", "addr 192.0.2.1/24, 192.0.2.2:80"),
        ("fd00:12:34::1%eth0 and [fd00:12:34::2]:80", "2001:db8::1%eth0 and [2001:db8::2]:80"),
        ("fe80::9a03:9bff:fe67:ab12/64", "fe80::200:0:0:1/64"),
        ("fe80:0000:0000:0000:9a03:9bff:fe67:ab12", "fe80:0000:0000:0000:0200:0000:0000:0001"),
        ("0000:0000:0000:0000:0000:ffff:0a14:1e28", "0000:0000:0000:0000:0000:ffff:c000:0201"),
        ("::ffff:10.20.30.40", "::ffff:192.0.2.1"),
        ("node guid 9803:9b03:0067:ab12.", "node guid 0200:0000:0000:0001."),
        ("node_guid: 0x98039b030067ab12", "node_guid: 0x0200000000000001"),
        ("98-03-9b-03-00-67-ab-12", "02-00-00-00-00-00-00-01"),
        (
            "00:00:10:29:fe:80:00:00:00:00:00:00:98:03:9b:03:00:67:ab:12",
            "00:00:10:29:fe:80:00:00:00:00:00:00:02:00:00:00:00:00:00:01",
        ),
        ("Serial Number: 1653022012345\n", "Serial Number: MASKED0000001\n"),
        ("disk serial=S64DNX0R123456X ok", "disk serial=MASKED000000001 ok"),
        (
            "root=UUID=8f2c1a44-9d3e-11ee-b962-0242ac120002",
            "root=UUID=00000000-0000-0000-0000-000000000001",
        ),
        ("UUID=12AB-CD34 PARTUUID=5f3c2b1a-02", "UUID=0000-0001 PARTUUID=00000000-02"),
        ("wwn-0x5000c500a1b2c3d4", "wwn-0x0200000000000001"),
        ("eui.0025385b71b00f5d", "eui.0200000000000001"),
        (
            "/dev/disk/by-id/nvme-SAMSUNG_MZQL23T8_S64DNX0R123456_1-part2",
            "/dev/disk/by-id/nvme-SAMSUNG_MZQL23T8_MASKED00000001_1-part2",
        ),
        ("/dev/disk/by-id/virtio-ab12cd34ef", "/dev/disk/by-id/virtio-MASKED0001"),
        (
            "/dev/disk/by-id/lvm-pv-uuid-AbC123-x7Yz-0000-aaaa-bbbb-cccc-dEf456",
            "/dev/disk/by-id/lvm-pv-uuid-MASKED00000000000000000000000000000001",
        ),
        ("/dev/disk/by-id/dm-name-node17_vg-root", "/dev/disk/by-id/dm-name-maskedhost1_vg-root"),
        ("/home/bob/x /Users/bob /root/y", "/home/maskeduser1/x /Users/maskeduser1 /root/y"),
        (
            "Linux version 6.1.0-13-amd64 (buildd@lcy02-amd64-001) (gcc 12.2.0)",
            "Linux version 6.1.0-13-amd64 (maskeduser1@maskedhost1) (gcc 12.2.0)",
        ),
        ("iqn.1993-08.org.debian:01:abc123def", "iqn.1993-08.org.debian:MASKED000001"),
        ("up on NODE17, node17-ib0; node170", "up on maskedhost1, maskedhost1-ib0; node170"),
        ("http://node17.hpc.site.edu/x", "http://maskedhost1.masked1.example/x"),
        ("/tmp/alice.log", "/tmp/maskeduser1.log"),
        ("user-1000.slice/user@1000.service", "user-1000.slice/user@1000.service"),
    ] {
        let masked = plain(text);
        assert_eq!(masked, expected, "{text}");
    }
}

#[test]
fn keeps_text_without_names() {
    for text in [
        "0000:1a:00.0 pci0000:15 00000000:3B:00.0 10000:e0:01.7 1a:00.0",
        "00000000,ffffffff,ffffffff",
        "CapEff:\t000001ffffffffff\nSigCgt:\t0000000000000000\n",
        "0x0000004000000000 0x000000400007ffff 0x0000000000140204",
        "0.0.0.0 127.0.0.1 127.0.1.1 255.255.255.255 255.255.255.0 255.255.240.0",
        "v12.2.0.1, 1.2.3.4.5, 12.02.0.1, 256.1.1.1, libfoo12.2.0.1",
        ":: ::1 ff02::1 std::fmt::Display a::b::c",
        "0000:0000:0000:0000:0000:0000:0000:0000 0000:0000:0000:0000",
        "00000000-0000-0000-0000-000000000000 00:00:00:00:00:00 ff:ff:ff:ff:ff:ff",
        "12:34:56 2026-11-21T10:15:00Z",
        "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00",
        "GPU-????????-????-????-????-????????????",
        "Serial: 8250/16550 driver, 32 ports",
        "ib_core 458752 12 nvidia_peermem,mlx5_ib, Live 0xffffffffc0400000 (O)",
        "serial: none, Serial Number: N/A",
        "0-31,64-95 nvidia 580.159.04",
        "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.1.0-13-amd64 root=LABEL=cloudimg ro console=ttyS0,115200n8",
        "uid=1000 Uid:\t1000\t1000\t1000\t1000",
    ] {
        assert_eq!(plain(text), text);
    }
    for path in ["/sys/module/nvidia/version", "/sys/class/infiniband/mlx5_0/fw_ver"] {
        assert_eq!(file(path, "12.2.0.1\n"), "12.2.0.1\n", "{path}");
    }
}

#[test]
fn vendor_ids_and_device_names() {
    for (text, expected) in [
        (
            "rocex525400c0fe123455 ibx98039b030067ab12v3 enxac1f6b123456",
            "rocex0200000000000001 ibx0200000000000002v3 enx020000000001",
        ),
        (
            "options vfio-pci ids=10de:2335:10de:16c1,15b3:1021:15b3:0041",
            "options vfio-pci ids=10de:2335:10de:16c1,15b3:1021:15b3:0041",
        ),
        ("8086:0001:8086:0002 9803:9b03:0067:ab12", "8086:0001:8086:0002 0200:0000:0000:0001"),
    ] {
        assert_eq!(plain(text), expected);
    }
}

#[test]
fn files_with_one_name_or_number() {
    for (path, text, expected) in [
        ("/sys/class/dmi/id/product_serial", "XY12 34\n", "MASKED1\n"),
        ("/sys/class/dmi/id/board_serial", "To be filled by O.E.M.\n", "To be filled by O.E.M.\n"),
        (
            "/sys/class/dmi/id/product_uuid",
            "00000000-0000-0000-0000-ac1f6b123456\n",
            "00000000-0000-0000-0000-000000000001\n",
        ),
        (
            "/sys/class/infiniband/mlx5_0/node_guid",
            "9803:9b03:0067:ab12\n",
            "0200:0000:0000:0001\n",
        ),
        ("/sys/class/net/ib0/port_guid", "0x98039b030067ab12", "0x0200000000000001"),
        ("/sys/block/nvme0n1/wwid", "eui.0025385b71b00f5d\n", "eui.0200000000000001\n"),
        ("/sys/class/nvme/nvme0/serial", "S64DNX0R123456      \n", "MASKED00000001      \n"),
        (
            "/etc/machine-id",
            "8f2c1a449d3e11eeb9620242ac120002\n",
            "00000000000000000000000000000001\n",
        ),
        ("/proc/sys/kernel/hostname", "gpu7\n", "maskedhost1\n"),
        ("/proc/sys/kernel/hostname", "localhost\n", "localhost\n"),
        ("/sys/class/infiniband/mlx5_0/node_desc", "gpu7 HCA-1\n", "maskedhost1 HCA-1\n"),
    ] {
        assert_eq!(file(path, text), expected, "{path}");
    }
}

#[test]
fn short_and_long_container_ids_agree() {
    let id = "3f2a9c4b5d6e7f80112233445566778899aabbccddeeff00112233445566aabb";
    let text = format!(
        "0::/docker/{id}\n1:x:/system.slice/docker-{id}.scope\n/docker/3f2a9c4b5d6e, host 3f2a9c4b5d6e"
    );
    let masked = format!("000000000001{}", "0".repeat(52));
    assert_eq!(
        plain(&text),
        format!(
            "0::/docker/{masked}\n1:x:/system.slice/docker-{masked}.scope\n/docker/000000000001, host 000000000001"
        )
    );
}

#[test]
fn reserves_existing_replacements() {
    assert_eq!(
        plain("10.0.0.1 192.0.2.1 10.0.0.1 ac:1f:6b:00:00:01 02:00:00:00:00:01"),
        "192.0.2.2 192.0.2.1 192.0.2.2 02:00:00:00:00:01 02:00:00:00:00:02"
    );
}

#[test]
fn common_words_are_names_only_in_name_positions() {
    let mut snapshot = with_text(
        "/proc/cmdline",
        "nvidia.NVreg_X=1 systemd.hostname=peers ip=1.2.3.4::::peers:nvme0:off x",
    );
    snapshot.host.name = Some("peers".to_owned());
    snapshot.host.source = "live".to_owned();
    add_text(&mut snapshot, "/proc/sys/kernel/hostname", "peers");
    add_text(&mut snapshot, "/sys/kernel/mm/peers/x", "peers");
    add_text(&mut snapshot, "/sys/class/nvme/nvme0/state", "live");
    let names = ["cpu", "nvidia", "live", "x", "42"].map(str::to_owned).to_vec();
    mask(
        &mut snapshot,
        &Known { hosts: names, users: vec!["nvme0".to_owned()], ..Known::default() },
    );
    assert_eq!(snapshot.host.name.as_deref(), Some("maskedhost1"));
    assert_eq!(snapshot.host.source, "live");
    assert_eq!(
        text_of(&snapshot, "/proc/cmdline"),
        "nvidia.NVreg_X=1 systemd.hostname=masked ip=masked x"
    );
    assert_eq!(text_of(&snapshot, "/proc/sys/kernel/hostname"), "maskedhost1");
    assert_eq!(text_of(&snapshot, "/sys/kernel/mm/peers/x"), "peers");
}

#[test]
fn directory_names_agree_with_paths() {
    let disk = "/dev/disk/by-id/nvme-SAMSUNG_S64DNX0R123456";
    let mut snapshot = with_text(disk, "");
    add_names(&mut snapshot, "/dev/disk/by-id", &["dm-x", "nvme-SAMSUNG_S64DNX0R123456"]);
    mask(&mut snapshot, &known());
    let names = snapshot.files["/dev/disk/by-id"].names.clone();
    assert_eq!(names, Some(vec!["dm-x".to_owned(), "nvme-SAMSUNG_MASKED00000001".to_owned()]));
    assert!(snapshot.files.contains_key("/dev/disk/by-id/nvme-SAMSUNG_MASKED00000001"));
}

fn part(at: u64, bytes: &[u8]) -> Part {
    Part { at, bytes: Hex(bytes.to_vec()) }
}

#[test]
fn masks_serial_number_of_configuration_space() {
    // AER at 100 leads to a serial number at 148, recorded in two parts, and that to ACS at 158.
    let dsn = [0x12, 0xab, 0x67, 0x00, 0x03, 0x9b, 0x03, 0x98];
    let parts = vec![
        part(0, &[0xde, 0x10, 0x30, 0x23]),
        part(0x100, &[0x01, 0x00, 0x82, 0x14]),
        part(0x148, &[0x03, 0x00, 0x81, 0x15]),
        part(0x14c, &dsn),
        part(0x158, &[0x0d, 0x00, 0x01, 0x00, 0x5f, 0x00, 0x1d, 0x00]),
    ];
    let recorded = Recorded { parts: Some(parts.clone()), end: Some(4096), ..Recorded::default() };
    let path = "/sys/devices/pci0000:15/0000:16:00.0/config";
    let mut snapshot = with_text("/sys/class/infiniband/mlx5_0/node_guid", "9803:9b03:0067:ab12");
    snapshot.files.insert(path.to_owned(), recorded);
    for _ in 0..2 {
        mask(&mut snapshot, &known());
        let mut expected = parts.clone();
        expected[3] = part(0x14c, &[1, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(snapshot.files[path].parts, Some(expected));
        assert_eq!(
            text_of(&snapshot, "/sys/class/infiniband/mlx5_0/node_guid"),
            "0200:0000:0000:0001",
            "an HCA's GUID and its serial number are one number"
        );
    }
}

#[test]
fn masked_configuration_space_differs_only_in_serial_number() {
    use crate::model::Fact;
    use crate::model::config::SerialNumber;
    let mut space = vec![0; 4096];
    space[0..4].copy_from_slice(&[0xb3, 0x15, 0x21, 0x10]);
    space[6] = 0x10;
    space[0x34] = 0x60;
    space[0x60..0x64].copy_from_slice(&[0x10, 0x00, 0x02, 0x00]);
    space[0x100..0x104].copy_from_slice(&[0x0d, 0x00, 0x01, 0x15]);
    space[0x104..0x108].copy_from_slice(&[0x5f, 0x00, 0x1d, 0x00]);
    space[0x150..0x15c].copy_from_slice(&[0x03, 0x00, 0x01, 0x00, 8, 7, 6, 5, 4, 3, 2, 1]);
    let path = "/sys/bus/pci/devices/0000:16:00.0/config";
    let recorded = Recorded { bytes: Some(Hex(space.clone())), ..Recorded::default() };
    let mut snapshot = with_text("/x", "");
    snapshot.files.insert(path.to_owned(), recorded);
    mask(&mut snapshot, &known());
    let masked = &snapshot.files[path].bytes.as_ref().expect("bytes").0;
    let decode = |space: &[u8]| crate::pci::decode(&space, crate::pci::Depth::Full);
    let (mut before, after) = (decode(&space), decode(masked));
    assert_eq!(before.serial_number, Fact::Known(Some(SerialNumber(0x0102_0304_0506_0708))));
    before.serial_number = Fact::Known(Some(SerialNumber(0x0200_0000_0000_0001)));
    assert_eq!(before, after);
}

#[test]
fn looping_or_truncated_list_terminates() {
    for bytes in [
        &[0x01, 0x00, 0x01, 0x10][..],
        &[0x03, 0x00, 0x01, 0x10, 1, 2, 3],
        &[0xff; 12],
        &[0x03, 0x00, 0x01, 0xff],
        &[],
    ] {
        let mut data = bytes.to_vec();
        bytes::config(&mut vec![(0x100, &mut data)], |_| panic!("no serial number is there"));
        assert_eq!(data, bytes);
    }
}

#[test]
fn vital_product_data_keeps_length_and_checksum() {
    let mut vpd =
        b"\x82\x04\x00CX-7\x90\x23\x00PN\x04AB12SN\x0cMT2043X12345V0\x06SW_MNGRV\x01".to_vec();
    let sum = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let check = 0u8.wrapping_sub(sum(&vpd));
    vpd.extend([check, 0x78]);
    let recorded = Recorded { parts: Some(vec![part(0, &vpd)]), ..Recorded::default() };
    let path = "/sys/bus/pci/devices/0000:16:00.0/vpd";
    let mut snapshot = with_text("/x", "board MT2043X12345");
    snapshot.files.insert(path.to_owned(), recorded);
    mask(&mut snapshot, &known());
    let masked = &snapshot.files[path].parts.as_ref().expect("parts")[0].bytes.0;
    let start = b"\x82\x04\x00CX-7\x90\x23\x00PN\x04AB12SN\x0cMASKED000001V0\x06SW_MNGRV\x01";
    assert_eq!(masked[..start.len()], *start);
    assert_eq!((masked.len(), sum(&masked[..=start.len()])), (vpd.len(), 0));
    let once = snapshot.clone();
    mask(&mut snapshot, &known());
    assert_eq!(snapshot, once);
}

#[test]
fn masks_library_answers() {
    let answer = serde_json::json!({"read": {
        "library": "/home/bob/lib/libnvidia-ml.so.580.159.04", "driver_version": {"known": "580.159.4.1"},
        "cuda_version": {"known": 13000}, "confidential_compute": {"unknown": "not_covered"}, "gpus": [], "pairs": [],
        "unreachable": ["GPU 3 of node17: GPU-8f2c1a44-9d3e-11ee-b962-0242ac120002"]
    }});
    let outcome: NvmlOutcome = serde_json::from_value(answer).expect("an answer");
    let mut snapshot = Snapshot::default();
    snapshot.libraries.nvml = Some(LibraryAnswer::Answered(outcome));
    mask(&mut snapshot, &known());
    let value = serde_json::to_value(&snapshot.libraries).expect("JSON");
    let read = &value["nvml"]["answered"]["read"];
    assert_eq!(read["library"], "/home/maskeduser1/lib/libnvidia-ml.so.580.159.04");
    assert_eq!(read["driver_version"]["known"], "580.159.4.1");
    assert_eq!(
        read["unreachable"][0],
        "GPU 3 of maskedhost1: GPU-00000000-0000-0000-0000-000000000001"
    );
}

#[test]
fn key_gives_one_name_one_mask_in_all_documents() {
    let key = |text: &str| crate::model::MaskKey::new(text.as_bytes()).expect("a key");
    let masked = |host: &str, text: &str, key: Option<crate::model::MaskKey>| {
        let recorded = Recorded { text: Some(text.to_owned()), ..Recorded::default() };
        let mut snapshot = Snapshot {
            files: [("/etc/motd".to_owned(), recorded)].into_iter().collect(),
            ..Snapshot::default()
        };
        let known =
            Known { hosts: vec![host.to_owned(), "gw7".to_owned()], key, ..Known::default() };
        mask(&mut snapshot, &known);
        let once = text_of(&snapshot, "/etc/motd").to_owned();
        mask(&mut snapshot, &known);
        assert_eq!(text_of(&snapshot, "/etc/motd"), once, "again");
        once
    };
    let (one, two) = (key("0123456789abcdef"), key("0123456789abcdeX"));
    let gateway = one.host("gw7");
    let a = masked("node1", "node1 gw7 98:03:9b:67:ab:12", Some(one.clone()));
    let b = masked("node2", "gw7 node2 98:03:9b:67:ab:12", Some(one.clone()));
    assert_eq!(a.split(' ').nth(1), Some(gateway.as_str()), "{a}");
    assert_eq!(b.split(' ').next(), Some(gateway.as_str()), "{b}");
    assert_eq!(a.rsplit(' ').next(), b.rsplit(' ').next(), "the hardware address");
    assert_ne!(a.split(' ').next(), b.split(' ').nth(1), "two hosts");
    assert!(!masked("node1", "node1 gw7", Some(two)).contains(&gateway));
    assert_eq!(masked("node1", "node1 gw7", None), "maskedhost1 maskedhost2");
}
