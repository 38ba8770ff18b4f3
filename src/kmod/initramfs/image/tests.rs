//! Images written by hand, whole, cut off and lying.

use super::*;
use crate::model::Command;

/// An archive in the form newc, written by hand from buffer-format.rst: name, mode, content.
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
    let reading = Reading {
        path: "/boot/initrd.img",
        enough: &|| false,
    };
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
fn finds_modules_and_options_behind_microcode_and_zeros() {
    let mut bytes = archive(&[("kernel/x86/microcode/GenuineIntel.bin", FILE, &[0xa5; 1001])]);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes.extend(archive(&[
        ("etc", DIRECTORY, b""),
        ("etc/modprobe.d/a.conf", FILE, b"options nvidia A=1\noptions snd B=1\n"),
        ("usr/lib/modules/6.8.0/kernel/drivers/nvidia.ko.zst", FILE, &[7; 333]),
        ("usr/lib/modules/6.8.0/kernel/drivers/snd.ko", FILE, b"x"),
    ]));
    let found = image(&bytes);
    assert_eq!(found.trouble, None);
    assert_eq!(found.packing, ["none", "none"]);
    assert_eq!(found.modules, ["usr/lib/modules/6.8.0/kernel/drivers/nvidia.ko.zst"]);
    assert_eq!(options(&found), [("/boot/initrd.img: etc/modprobe.d/a.conf", "A=1")]);
}

#[test]
fn names_hide_and_order_and_links_are_followed() {
    let found = image(&archive(&[
        ("./usr/lib/modprobe.d/b.conf", FILE, b"options nvidia B=hidden\n"),
        ("./usr/lib/modprobe.d/c.conf", FILE, b"options nvidia C=1\n"),
        ("./etc/modprobe.d/z.conf", FILE, b"options nvidia Z=1\n"),
        ("./etc/modprobe.d/b.conf", FILE, b""),
        (
            "./etc/modprobe.d/nvidia.conf",
            LINK,
            b"/etc/alternatives/glx--nvidia-modprobe.conf",
        ),
        (
            "./etc/alternatives/glx--nvidia-modprobe.conf",
            LINK,
            b"../nvidia/nvidia-modprobe.conf",
        ),
        ("./etc/nvidia/nvidia-modprobe.conf", FILE, b"options nvidia N=1\n"),
        ("./etc/modprobe.d/loop.conf", LINK, b"loop.conf"),
        ("./etc/modprobe.d/sub/d.conf", FILE, b"options nvidia D=1\n"),
    ]));
    let values: Vec<&str> = options(&found).into_iter().map(|(_, options)| options).collect();
    assert_eq!(values, ["C=1", "N=1", "Z=1"]);
    assert_eq!(found.trouble, None);
}

#[test]
fn what_is_cut_off_or_foreign_is_said_and_what_was_found_stays() {
    let whole = archive(&[
        ("etc/modprobe.d/a.conf", FILE, b"options nvidia A=1\n"),
        ("big", FILE, &[1; 4000]),
    ]);
    for end in [0, 3, 50, 112, 140, 2000, whole.len() - 60] {
        let found = image(&whole[..end]);
        assert!(found.trouble.is_some(), "{end}");
        assert_eq!(found.directives.len(), usize::from(end > 200), "{end}");
    }
    for (bytes, words) in [
        (&b"BZh91AY"[..], "bzip2"),
        (&[0x5d, 0, 0, 0, 4, 0, 0][..], "lzma"),
        (&b"MZ a program"[..], "no archive"),
        (&[0; 4096][..], "empty"),
        (&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff][..], "gzip"),
        (&[0x02, 0x21, 0x4c, 0x18, 0xff, 0xff, 0xff, 0x7f][..], "LZ4"),
    ] {
        let trouble = image(bytes).trouble.expect("trouble");
        assert!(trouble.contains(words), "{words}: {trouble}");
    }
}

#[test]
fn sizes_that_lie_take_no_memory_and_time_is_bounded() {
    let mut bytes = archive(&[("etc/modprobe.d/a.conf", FILE, b"options nvidia A=1\n")]);
    // The size of the content: 4 GiB less one.
    bytes[54..62].copy_from_slice(b"FFFFFFFF");
    assert!(image(&bytes).trouble.is_some());
    let reading = Reading {
        path: "x",
        enough: &|| true,
    };
    let bytes = archive(&[("big", FILE, &[1; 4000])]);
    let found = read(&mut &bytes[..], &reading);
    assert_eq!(found.trouble.as_deref(), Some("reading it took too long"));
}
