//! Masking changes private data, but not gdr's output.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Gdr, Machine, scratch};
use gdr::model::{Hex, Part, Recorded, Snapshot};
use gdr::snapshot::{Known, mask};
use serde_json::Value;

/// The files below `root` as in a snapshot.
fn record(root: &Path, at: &str, files: &mut BTreeMap<String, Recorded>) {
    let here = root.join(at.trim_start_matches('/'));
    let mut recorded = Recorded::default();
    let kind = fs::symlink_metadata(&here).expect("an entry");
    if kind.is_symlink() {
        recorded.link = Some(fs::read_link(&here).expect("a link").display().to_string());
    } else if kind.is_dir() {
        let entries = fs::read_dir(&here).expect("a directory");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        for name in &names {
            record(root, &format!("{}/{name}", at.trim_end_matches('/')), files);
        }
        recorded.names = Some(names);
    } else {
        let bytes = fs::read(&here).expect("a file");
        let in_parts = at.ends_with("/config") || at.ends_with("/vpd");
        match String::from_utf8(bytes) {
            Ok(text) if !in_parts => recorded.text = Some(text),
            Ok(text) => recorded.parts = Some(vec![whole(text.into_bytes())]),
            Err(error) => recorded.parts = Some(vec![whole(error.into_bytes())]),
        }
    }
    files.insert(at.to_owned(), recorded);
}

fn whole(bytes: Vec<u8>) -> Part {
    Part { at: 0, bytes: Hex(bytes) }
}

fn lay_out(snapshot: &Snapshot, root: &Path) {
    for (path, recorded) in &snapshot.files {
        let at = root.join(path.trim_start_matches('/'));
        if recorded.names.is_some() {
            fs::create_dir_all(&at).expect("a directory");
        } else if let Some(link) = &recorded.link {
            symlink(link, &at).expect("a link");
        } else if let Some(text) = &recorded.text {
            fs::write(&at, text).expect("a file");
        } else if let Some([Part { bytes, .. }]) = recorded.parts.as_deref() {
            fs::write(&at, &bytes.0).expect("a file");
        }
    }
}

/// Removes the builder (`user@host`) at the end of the driver's version line.
fn without_builders(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split('@').enumerate() {
        let rest = if at == 0 { part } else { part.split_once(')').expect("its end").1 };
        let is_last = text.matches('@').count() == at;
        out.push_str(if is_last { rest } else { rest.rsplit_once('(').expect("its begin").0 });
    }
    out
}

/// gdr's output without private data.
fn output(root: &Path, command: &str) -> (i32, Value) {
    let run = Gdr::new().sysroot(root).args([command, "--format", "json"]).run();
    // A step repairs the directory that was read.
    let text = run.stdout.replace(&root.display().to_string(), "ROOT");
    let mut value: Value = serde_json::from_str(&without_builders(&text)).expect("JSON");
    value["host"]["name"] = Value::Null;
    value["host"]["source"] = Value::Null;
    for device in value["devices"].as_array_mut().into_iter().flatten() {
        device["uuid"] = Value::Bool(device["uuid"].is_string());
    }
    (run.code, value)
}

#[test]
fn masked_machine_gives_same_output() {
    for name in ["h200-x8", "grace-gh200", "hgx-acs-redirect", "virtual-functions", "vm-iommu-on"] {
        let (plain, masked) = (Machine::load(name).laid_out(), scratch());
        for (path, text) in [
            ("proc/sys/kernel/hostname", "mlx5\n"),
            ("etc/machine-id", "8f2c1a449d3e11eeb9620242ac120002\n"),
        ] {
            let path = plain.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        let mut snapshot = Snapshot::default();
        record(plain.path(), "/", &mut snapshot.files);
        let before = snapshot.clone();
        let hosts = vec!["mlx5".to_owned(), "pci".to_owned(), "h200".to_owned()];
        let users = vec!["nvidia".to_owned()];
        mask(&mut snapshot, &Known { hosts, users, ..Known::default() });
        let paths = |snapshot: &Snapshot| snapshot.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(paths(&snapshot), paths(&before), "{name}: no path names a machine");
        lay_out(&snapshot, masked.path());
        for command in ["doctor", "topo"] {
            assert_eq!(
                output(masked.path(), command),
                output(plain.path(), command),
                "{name}: {command}"
            );
        }
    }
}

/// Private parts of the environment, user limits and boot lists are in no snapshot, masked or not.
#[test]
fn does_not_record_private_data() {
    const SECRETS: [&str; 6] =
        ["hunter2", "alice", "ml-team", "secretproject", "GPU-1234", "private-module"];
    let dir = scratch();
    let root = dir.path().join("root");
    fs::create_dir(&root).expect("a directory");
    Machine::load("sound").lay_out(&root);
    let write = |path: &str, text: &str| {
        let at = root.join(path);
        fs::create_dir_all(at.parent().expect("a parent")).expect("directories");
        fs::write(at, text).expect("a file");
    };
    write(
        "proc/self/environ",
        "HOME=/home/alice\0API_TOKEN=hunter2\0NCCL_NET_PLUGIN=/home/alice/libx.so\0CUDA_VISIBLE_DEVICES=GPU-1234\0\
         LD_LIBRARY_PATH=/scratch/secretproject/lib:/home/alice/miniconda3/lib:/usr/local/cuda/compat\0NCCL_P2P_DISABLE=1\0",
    );
    write("etc/security/limits.d/x.conf", "alice - memlock 1024\n@ml-team hard memlock 8192\n");
    write("etc/modules-load.d/x.conf", "private-module\n# of alice\n");
    write(
        "proc/self/mountinfo",
        "22 28 0:20 / /sys rw - sysfs sysfs rw\n23 28 0:9 / /home/alice rw - nfs4 srv:/secretproject rw\n",
    );
    let file = dir.path().join("machine.json");
    let run = Gdr::new().sysroot(&root).args(["snapshot", "-o"]).args([&file]).run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = fs::read_to_string(&file).expect("the snapshot");
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} is in the snapshot");
    }
    for kept in ["NCCL_P2P_DISABLE=1", "(conda):/usr/local/cuda/compat", "@group hard memlock 8192"]
    {
        assert!(text.contains(kept), "{kept} is not in the snapshot");
    }
}

/// An image on the EFI partition, below the machine id, is still found after masking.
#[test]
fn finds_image_below_masked_machine_id() {
    const ID: &str = "8f2c1a449d3e11eeb9620242ac12ffff";
    let dir = tempfile::tempdir().expect("a directory");
    for (path, text) in [
        ("etc/modprobe.d/a.conf", "options nvidia A=1\n"),
        ("proc/sys/kernel/osrelease", "6.8.0\n"),
        (&format!("efi/{ID}/6.8.0/initrd"), "not an initramfs"),
    ] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory above")).expect("directories");
        fs::write(path, text).expect("a file");
    }
    let options = gdr::collect::CollectOptions {
        system: true,
        modules: true,
        software: true,
        settings: true,
        ..gdr::collect::CollectOptions::default()
    };
    let (world, record) = gdr::world::World::directory(dir.path()).expect("a root").recording();
    let image = |facts: gdr::model::Facts| {
        let image = facts.modprobe.initramfs.expect("an option is set");
        image.known().cloned().flatten().expect("an image")
    };
    let before = image(gdr::collect::facts(&world, options));
    assert_eq!(before.path, format!("/efi/{ID}/6.8.0/initrd"));
    let mut snapshot = record.finish(String::new());
    mask(&mut snapshot, &Known::default());
    let document = serde_json::to_string(&snapshot).expect("JSON");
    assert!(!document.contains(ID));
    let after = image(gdr::collect::facts(&gdr::world::World::snapshot(snapshot), options));
    assert!(after.path.starts_with("/efi/") && after.path.ends_with("/6.8.0/initrd"));
    assert_eq!(after.failure, before.failure);
}
