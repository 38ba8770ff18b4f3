//! Host and user names: replaced, except where they are words that gdr reads.

use super::*;

#[test]
fn volume_group_does_not_protect_a_name() {
    let mut snapshot = with_text("/dev/node17-vg/root", "");
    add_names(&mut snapshot, "/dev", &["node17-vg", "nvidia0"]);
    add_text(&mut snapshot, "/some/file", "on node17");
    mask(&mut snapshot, &known());
    assert_eq!(text_of(&snapshot, "/some/file"), "on maskedhost1");
    let names = snapshot.files["/dev"].names.clone().expect("names");
    assert_eq!(names, ["maskedhost1-vg", "nvidia0"]);
    assert!(snapshot.files.contains_key("/dev/maskedhost1-vg/root"));
}

#[test]
fn masks_common_words_in_name_positions_only() {
    let line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (build@open)\n";
    let mut snapshot = with_text("/proc/driver/nvidia/version", line);
    let others = [
        ("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
        ("/sys/kernel/iommu_groups/1/type", "identity\n"),
        ("/x", "mail identity@site.edu /home/release/x\n"),
    ];
    for (path, text) in others {
        add_text(&mut snapshot, path, text);
    }
    mask(&mut snapshot, &known());
    assert_eq!(
        text_of(&snapshot, "/proc/driver/nvidia/version"),
        line.replace("build@open", "maskeduser1@maskedhost1")
    );
    for (path, text) in &others[..2] {
        assert_eq!(text_of(&snapshot, path), *text);
    }
    assert_eq!(
        text_of(&snapshot, "/x"),
        "mail maskeduser2@maskedhost2.masked1.example /home/maskeduser3/x\n"
    );
}

#[test]
fn host_named_like_a_value_that_gdr_compares() {
    for word in ["open", "kernel", "identity", "active", "infiniband", "pt", "Module"] {
        let mut snapshot = with_text("/sys/x/state", &format!("4: {word}\n"));
        snapshot.host.name = Some(word.to_owned());
        mask(&mut snapshot, &known());
        assert_eq!(text_of(&snapshot, "/sys/x/state"), format!("4: {word}\n"));
        assert_eq!(snapshot.host.name.as_deref(), Some("maskedhost1"));
    }
}

#[test]
fn host_named_by_a_number() {
    let mut snapshot = with_text("/proc/sys/kernel/hostname", "4711\n");
    add_text(&mut snapshot, "/sys/class/infiniband/mlx5_0/node_desc", "4711 HCA-1");
    add_text(&mut snapshot, "/x", "4711");
    snapshot.host.name = Some("4711".to_owned());
    mask(&mut snapshot, &known());
    assert_eq!(snapshot.host.name.as_deref(), Some("maskedhost1"));
    assert_eq!(text_of(&snapshot, "/proc/sys/kernel/hostname"), "maskedhost1\n");
    assert_eq!(text_of(&snapshot, "/sys/class/infiniband/mlx5_0/node_desc"), "maskedhost1 HCA-1");
    assert_eq!(text_of(&snapshot, "/x"), "4711");
}

#[test]
fn replaces_source_path() {
    for (source, expected) in
        [("live", "live"), ("/home/bob/cases/acme", "sysroot"), ("acme", "sysroot")]
    {
        let mut snapshot = with_text("/x", "");
        snapshot.host.source = source.to_owned();
        for _ in 0..2 {
            mask(&mut snapshot, &known());
            assert_eq!(snapshot.host.source, expected);
        }
    }
}

#[test]
fn masks_private_addresses_unless_document_is_masked() {
    let text =
        "198.18.0.9 240.0.0.7 02:00:00:00:00:09 0x0200000000000009 node_guid 0200:0000:0000:0009";
    let mut snapshot = with_text("/x", text);
    snapshot.masked = true;
    mask(&mut snapshot, &known());
    assert_eq!(text_of(&snapshot, "/x"), text);
    assert_eq!(
        plain("198.18.0.9 240.0.0.7 02:00:00:00:00:09 node_guid 0200:0000:0000:0009"),
        "192.0.2.1 192.0.2.2 02:00:00:00:00:01 node_guid 0200:0000:0000:0001"
    );
}

#[test]
fn device_names_with_guid_agree_everywhere() {
    let class = "/sys/class/infiniband";
    let mut snapshot =
        with_text(&format!("{class}/rocex525400c0fe123455/node_guid"), "5254:00c0:fe12:3455\n");
    add_text(&mut snapshot, "/sys/class/infiniband_verbs/uverbs0/ibdev", "rocex525400c0fe123455\n");
    add_names(&mut snapshot, class, &["rocex525400c0fe123455"]);
    mask(&mut snapshot, &known());
    let name = "rocex0200000000000001";
    assert_eq!(snapshot.files[class].names, Some(vec![name.to_owned()]));
    assert_eq!(text_of(&snapshot, &format!("{class}/{name}/node_guid")), "0200:0000:0000:0001\n");
    assert_eq!(
        text_of(&snapshot, "/sys/class/infiniband_verbs/uverbs0/ibdev"),
        format!("{name}\n")
    );
}

#[test]
fn masks_private_words_of_modprobe() {
    let path = "/etc/modprobe.d/node17.conf";
    let text = "# gdr: line 2\ninstall nvidia /opt/acme/load --from node17\n# gdr: line 3\noptions nvidia NVreg_RegistryDwords=A=1\n";
    let image = crate::model::Initramfs {
        path: "/boot/initrd.img-6.8.0".to_owned(),
        directives: crate::kmod::directives(
            "/boot/initrd.img-6.8.0: etc/modprobe.d/node17.conf",
            text,
        )
        .expect("few"),
        ..crate::model::Initramfs::default()
    };
    let mut snapshot = with_text(path, text);
    let record = serde_json::to_string(&image).expect("JSON");
    add_text(&mut snapshot, "/boot/initrd.img-6.8.0", &record);
    add_text(&mut snapshot, "/boot/initramfs-6.8.0.img", "acme's own");
    mask(&mut snapshot, &known());
    let document = serde_json::to_string(&snapshot).expect("JSON");
    assert!(!document.contains("acme") && !document.contains("node17"), "{document}");
    let kept = text_of(&snapshot, "/etc/modprobe.d/maskedhost1.conf");
    assert!(kept.contains("install nvidia masked masked masked") && kept.contains("A=1"), "{kept}");
    let read: crate::model::Initramfs =
        serde_json::from_str(text_of(&snapshot, "/boot/initrd.img-6.8.0")).expect("still a record");
    assert_eq!(read.directives.len(), 2);
    assert_eq!(text_of(&snapshot, "/boot/initramfs-6.8.0.img"), "");
}
