//! What a replacement keeps of a file: owner, permissions, ACLs, labels and other attributes; files that cannot be kept are
//! refused.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::fix_engine::plans::{apply, laid_out, tree, undo, write};

const GRUB: &str = "etc/default/grub";

/// An ACL in which user 7 may read (posix_acl_xattr.h: version 2, then tag, permissions and id of each entry).
fn acl() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, 4, 7),
        (0x04, 4, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 65536];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    Some(value[..length].to_vec())
}

/// Sets an attribute if the file system supports it.
fn set(path: &Path, name: &str, value: &[u8]) -> bool {
    setxattr(path, name, value, XattrFlags::empty()).is_ok()
}

#[test]
#[ignore = "needs root"]
fn keeps_and_restores_owner_permissions_and_attributes() {
    let dir = laid_out(&[3]);
    let file = dir.path().join(GRUB);
    chown(&file, Some(7), Some(8)).expect("an owner");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("permissions");
    let expected: Vec<(&str, Vec<u8>)> = [
        ("system.posix_acl_access", acl()),
        ("user.comment", b"an administrator's\0note".to_vec()),
        ("trusted.tool", vec![0, 255]),
        ("security.capability", vec![0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ]
    .into_iter()
    .filter(|(name, value)| set(&file, name, value))
    .collect();
    assert!(
        expected.iter().any(|(name, _)| *name == "trusted.tool"),
        "this file system keeps no attributes: {expected:?}"
    );
    let same = |when: &str| {
        let meta = fs::metadata(&file).expect("the file");
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (7, 8, 0o640), "{when}");
        for (name, value) in &expected {
            assert_eq!(attribute(&file, name).as_ref(), Some(value), "{when}: {name}");
        }
    };
    same("before");
    apply(dir.path(), vec![write("/etc/default/grub", Some(b"GRUB_TIMEOUT=5\n"), "ours\n")])
        .expect("it is made");
    assert_eq!(fs::read_to_string(&file).expect("the file"), "ours\n");
    same("made");
    assert!(undo(dir.path()).expect("an undo").whole);
    assert_eq!(fs::read_to_string(&file).expect("the file"), "GRUB_TIMEOUT=5\n");
    same("undone");
    // Also for a removed file.
    let removed = gdr::model::Action::RemoveFile {
        path: crate::fix_engine::plans::path("/etc/default/grub"),
        old: crate::fix_engine::plans::sha256sum(b"GRUB_TIMEOUT=5\n"),
    };
    apply(dir.path(), vec![removed]).expect("it is removed");
    assert!(!file.exists());
    assert!(undo(dir.path()).expect("an undo").whole);
    same("put back");
}

#[test]
fn refuses_unkeepable_files_first() {
    type Make = fn(&Path);
    let cases: [(&str, Make, &str); 3] = [
        (
            "a hard link",
            |root| {
                fs::hard_link(root.join(GRUB), root.join("etc/default/grub.other")).expect("a link")
            },
            "2 hard links",
        ),
        (
            "a set-user-id bit",
            |root| {
                fs::set_permissions(root.join(GRUB), fs::Permissions::from_mode(0o4755))
                    .expect("permissions")
            },
            "mode 4755",
        ),
        (
            "a signature",
            |root| {
                let file = root.join(GRUB);
                // Only root may set the attribute; a sticky bit cannot be kept either.
                if setxattr(&file, "security.ima", &[4, 4], XattrFlags::empty()).is_err() {
                    fs::set_permissions(file, fs::Permissions::from_mode(0o1755))
                        .expect("permissions");
                }
            },
            "",
        ),
    ];
    for (about, make, words) in cases {
        let dir = laid_out(&[3]);
        make(dir.path());
        let before = tree(dir.path());
        let actions = vec![
            write("/etc/x", None, "first\n"),
            write("/etc/default/grub", Some(b"GRUB_TIMEOUT=5\n"), "ours\n"),
        ];
        let error = apply(dir.path(), actions).expect_err(about);
        assert!(error.to_string().contains(words), "{about}: {error}");
        assert_eq!(tree(dir.path()), before, "{about}");
    }
}

#[test]
fn detects_later_change_of_permissions() {
    let dir = laid_out(&[3]);
    apply(dir.path(), vec![write("/etc/default/grub", Some(b"GRUB_TIMEOUT=5\n"), "ours\n")])
        .expect("it is made");
    fs::set_permissions(dir.path().join(GRUB), fs::Permissions::from_mode(0o644))
        .expect("permissions");
    let undone = undo(dir.path()).expect("an undo");
    assert!(!undone.whole, "{:?}", undone.steps);
}
