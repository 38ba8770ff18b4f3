//! Hand-written images: complete, truncated and malformed.

use super::*;
use crate::model::Command;

/// A newc archive, hand-written from buffer-format.rst: name, mode, content.
fn archive(entries: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let trailer: (&str, u32, &[u8]) = ("TRAILER!!!", 0, b"");
    for (name, mode, content) in entries.iter().copied().chain([trailer]) {
        let (size, length) = (content.len(), name.len() + 1);
        let head = format!(
            "070701{:08X}{mode:08X}{}{size:08X}{}{length:08X}{:08X}",
            1,
            "0".repeat(32),
            "0".repeat(32),
            0
        );
        assert_eq!(head.len(), 110);
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

const FILE: u32 = 0o100_644;
const LINK: u32 = 0o120_777;
const DIRECTORY: u32 = 0o040_755;

fn image(bytes: &[u8]) -> Initramfs {
    let reading = Reading { path: "/boot/initrd.img", enough: &|| false };
    read(&mut &*bytes, &reading)
}

fn options(found: &Initramfs) -> Vec<(&str, &str)> {
    let of = |found: &'_ Directive| match &found.command {
        Command::Options { options, .. } => Some(options.clone()),
        _ => None,
    };
    found
        .directives
        .iter()
        .filter(|found| of(found).is_some())
        .map(|found| match &found.command {
            Command::Options { options, .. } => (found.source.as_str(), options.as_str()),
            _ => unreachable!(),
        })
        .collect()
}

#[test]
fn finds_modules_and_options_after_microcode_and_zeros() {
    let mut bytes = archive(&[("kernel/x86/microcode/GenuineIntel.bin", FILE, &[0xa5; 1001])]);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes.extend(archive(&[
        ("etc", DIRECTORY, b""),
        ("etc/modprobe.d/a.conf", FILE, b"options nvidia A=1\noptions snd B=1\n"),
        ("usr/lib/modules/6.8.0/kernel/drivers/nvidia.ko.zst", FILE, &[7; 333]),
        ("usr/lib/modules/6.8.0/kernel/drivers/snd.ko", FILE, b"x"),
    ]));
    let found = image(&bytes);
    assert_eq!(found.failure, None);
    assert_eq!(found.packing, ["none", "none"]);
    assert_eq!(found.modules, ["usr/lib/modules/6.8.0/kernel/drivers/nvidia.ko.zst"]);
    assert_eq!(options(&found), [("/boot/initrd.img: etc/modprobe.d/a.conf", "A=1")]);
}

#[test]
fn follows_links_and_kmod_order() {
    let found = image(&archive(&[
        ("./usr/lib/modprobe.d/b.conf", FILE, b"options nvidia B=hidden\n"),
        ("./usr/lib/modprobe.d/c.conf", FILE, b"options nvidia C=1\n"),
        ("./etc/modprobe.d/z.conf", FILE, b"options nvidia Z=1\n"),
        ("./etc/modprobe.d/b.conf", FILE, b""),
        ("./etc/modprobe.d/nvidia.conf", LINK, b"/etc/alternatives/glx--nvidia-modprobe.conf"),
        ("./etc/alternatives/glx--nvidia-modprobe.conf", LINK, b"../nvidia/nvidia-modprobe.conf"),
        ("./etc/nvidia/nvidia-modprobe.conf", FILE, b"options nvidia N=1\n"),
        ("./etc/modprobe.d/loop.conf", LINK, b"loop.conf"),
        ("./etc/modprobe.d/sub/d.conf", FILE, b"options nvidia D=1\n"),
    ]));
    let values: Vec<&str> = options(&found).into_iter().map(|(_, options)| options).collect();
    assert_eq!(values, ["C=1", "N=1", "Z=1"]);
    assert_eq!(found.failure, None);
}

#[test]
fn reports_truncated_and_unsupported_images() {
    let whole = archive(&[
        ("etc/modprobe.d/a.conf", FILE, b"options nvidia A=1\n"),
        ("big", FILE, &[1; 4000]),
    ]);
    for end in [0, 3, 50, 112, 140, 2000, whole.len() - 60] {
        let found = image(&whole[..end]);
        assert!(found.failure.is_some(), "{end}");
        assert_eq!(found.directives.len(), usize::from(end > 200), "{end}");
    }
    for (bytes, words) in [
        (&b"BZh91AY"[..], "bzip2"),
        (&[0x5d, 0, 0, 0, 4, 0, 0][..], "lzma"),
        (&b"MZ a program"[..], "not an initramfs"),
        (&[0; 4096][..], "empty"),
        (&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff][..], "gzip"),
        (&[0x02, 0x21, 0x4c, 0x18, 0xff, 0xff, 0xff, 0x7f][..], "LZ4"),
    ] {
        let failure = image(bytes).failure.expect("a failure");
        assert!(failure.contains(words), "{words}: {failure}");
    }
}

#[test]
fn huge_sizes_and_slow_reads_are_bounded() {
    let mut bytes = archive(&[("etc/modprobe.d/a.conf", FILE, b"options nvidia A=1\n")]);
    // Content size: 4 GiB less one.
    bytes[54..62].copy_from_slice(b"FFFFFFFF");
    assert!(image(&bytes).failure.is_some());
    let reading = Reading { path: "x", enough: &|| true };
    let bytes = archive(&[("big", FILE, &[1; 4000])]);
    let found = read(&mut &bytes[..], &reading);
    assert_eq!(found.failure.as_deref(), Some("reading it took too long"));
}

#[test]
fn ignores_kernel_modules_with_similar_names() {
    let found = image(&archive(&[
        ("usr/lib/modules/6.8.0/kernel/drivers/video/fbdev/nvidia/nvidiafb.ko.xz", FILE, b"x"),
        (
            "usr/lib/modules/6.8.0/kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko.zst",
            FILE,
            b"x",
        ),
        ("usr/lib/modules/6.8.0/kernel/drivers/perf/arm_cspmu/nvidia_cspmu.ko", FILE, b"x"),
        ("usr/lib/modules/6.8.0/updates/dkms/nvidia-current.ko.xz", FILE, b"x"),
    ]));
    assert_eq!(found.modules, ["usr/lib/modules/6.8.0/updates/dkms/nvidia-current.ko.xz"]);
}

/// A hand-written PE file with these sections: name, content, size in memory.
fn unified(sections: &[(&str, &[u8], usize)]) -> Vec<u8> {
    const OPTIONAL: u16 = 240;
    let mut out = b"MZ".to_vec();
    out.resize(0x3c, 0);
    out.extend_from_slice(&0x80u32.to_le_bytes());
    out.resize(0x80, 0x90);
    out.extend_from_slice(b"PE\0\0");
    out.extend_from_slice(&0x8664u16.to_le_bytes());
    out.extend_from_slice(&u16::try_from(sections.len()).expect("few").to_le_bytes());
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(&OPTIONAL.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.resize(out.len() + usize::from(OPTIONAL), 0x55);
    let mut at = (out.len() + 40 * sections.len()).next_multiple_of(512);
    let mut bodies = Vec::new();
    for (name, body, in_memory) in sections {
        let in_file = body.len().next_multiple_of(512);
        let mut entry = name.as_bytes().to_vec();
        entry.resize(8, 0);
        for number in [*in_memory, 0x1000, in_file, at] {
            entry.extend_from_slice(&u32::try_from(number).expect("small").to_le_bytes());
        }
        entry.resize(40, 0);
        out.extend_from_slice(&entry);
        let mut body = body.to_vec();
        body.resize(in_file, 0);
        bodies.push((at, body));
        at += in_file;
    }
    for (at, body) in bodies {
        out.resize(at, 0);
        out.extend_from_slice(&body);
    }
    out
}

fn in_unified(bytes: &[u8]) -> Option<Initramfs> {
    let reading = Reading { path: "/efi/EFI/Linux/x.efi", enough: &|| false };
    read_unified(&mut &*bytes, &reading)
}

#[test]
fn reads_initramfs_of_unified_kernel_image() {
    let carried = archive(&[("etc/modprobe.d/a.conf", FILE, b"options nvidia A=1\n")]);
    let linux: &[u8] = &[0xcc; 3000];
    let bytes = unified(&[
        (".text", &[0x90; 100], 100),
        (".linux", linux, linux.len()),
        (".initrd", &carried, carried.len()),
        (".uname", b"6.8.0", 5),
    ]);
    let found = in_unified(&bytes).expect("an initramfs");
    assert_eq!(found.failure, None);
    assert_eq!(options(&found), [("/efi/EFI/Linux/x.efi: etc/modprobe.d/a.conf", "A=1")]);
    // objcopy writes no size in memory.
    let bytes = unified(&[(".initrd", &carried, 0)]);
    assert_eq!(in_unified(&bytes).expect("an initramfs").failure, None);
    assert_eq!(in_unified(&unified(&[(".linux", linux, linux.len())])), None);
}

#[test]
fn rejects_malformed_unified_kernel_image() {
    let carried = archive(&[("etc/modprobe.d/a.conf", FILE, b"options nvidia A=1\n")]);
    let failure = |bytes: &[u8]| {
        let found = in_unified(bytes).expect("a result");
        found.failure.expect("a failure")
    };
    let whole = unified(&[(".linux", &[0xcc; 3000], 3000), (".initrd", &carried, carried.len())]);
    // The section ends with zero padding, which may be missing.
    for end in 0..whole.len() - (carried.len().next_multiple_of(512) - carried.len()) {
        failure(&whole[..end]);
    }
    let two = unified(&[(".initrd", &carried, 9), (".profile", b"x", 1), (".initrd", &carried, 9)]);
    assert!(failure(&two).contains("profiles"));
    let table = 0x80 + 24 + 240;
    for (at, bytes) in [
        (0, [b'Z', b'M', 0, 0]),
        (0x3c, [0xff; 4]),
        (0x80, [b'N', b'E', 0, 0]),
        (0x84, [0x64, 0x86, 0xff, 0xff]),
        // Section offsets within the headers and beyond the file.
        (table + 40 + 20, [1, 0, 0, 0]),
        (table + 40 + 20, [0xff; 4]),
    ] {
        let mut wrong = whole.clone();
        wrong[at..at + 4].copy_from_slice(&bytes);
        assert!(!failure(&wrong).is_empty(), "{at}");
    }
    let reading = Reading { path: "x", enough: &|| true };
    let found = read_unified(&mut &whole[..], &reading).expect("a result");
    assert_eq!(found.failure.as_deref(), Some("reading it took too long"));
}
