//! Sources of secrets, and the owners and modes that files must have.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use super::super::{SecretError, connect_by_file};
use super::*;

const NOBODY: u32 = 65_534;

fn written(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
    path
}

#[test]
fn parses_and_hides_secret() {
    let digits = "0123456789abcdefABCDEF9876543210".repeat(2);
    let secret = Secret::parse(&digits).expect("a secret");
    assert_eq!(secret.text(), digits.to_lowercase());
    assert_eq!(format!("{secret:?}"), "Secret(…)");
    let one = Secret::generate().expect("random bytes");
    let two = Secret::generate().expect("random bytes");
    assert_ne!(one.text(), two.text());
    assert_eq!(Secret::parse(&one.text()), Some(one));
    for wrong in [
        "",
        "00",
        &"0".repeat(64),
        &"0g".repeat(32),
        &format!("{digits}0"),
        &digits[1..],
        &"é".repeat(32),
    ] {
        assert_eq!(Secret::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn secret_file_must_be_private() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "07".repeat(32) + "\n";
    let read = |path: &Path| Secret::from_file(path).map_err(|error| error.to_string());
    let good = written(folder.path(), "good", &text, 0o600);
    assert_eq!(read(&good), Ok(secret()));
    // Follows a link that the user named, and checks its target.
    let link = folder.path().join("link");
    symlink(&good, &link).expect("a link");
    assert_eq!(read(&link), Ok(secret()));
    for mode in [0o640, 0o604, 0o620, 0o602, 0o660, 0o644, 0o610] {
        let error = read(&written(folder.path(), "open", &text, mode)).expect_err("too open");
        assert!(error.contains(&format!("its mode is {mode:04o}")), "{error}");
        assert!(error.contains("chmod 600"), "{error}");
    }
    let error = read(&written(folder.path(), "short", "0707\n", 0o600)).expect_err("no secret");
    assert!(error.contains("64 hexadecimal digits") && !error.contains("0707"), "{error}");
    assert!(read(folder.path()).expect_err("a folder").contains("not a regular file"));
    assert!(matches!(
        Secret::from_file(&folder.path().join("none")),
        Err(SecretError::File { .. })
    ));
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
    assert!(read(&pipe).expect_err("a pipe").contains("not a regular file"));
}

#[test]
#[ignore = "needs root"]
fn rejects_secret_file_of_another_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = written(folder.path(), "secret", &("07".repeat(32) + "\n"), 0o600);
    chown(&path, Some(NOBODY), None).expect("chown");
    let error = Secret::from_file(&path).expect_err("wrong owner").to_string();
    assert!(error.contains("its owner is uid 65534, and this process has uid 0"), "{error}");
}

/// The error of a rank that cannot connect through a file.
fn connect_error(path: &Path, rank: u32) -> String {
    let link = connect_by_file::<TestMessage>(
        path,
        (rank, None),
        Ipv4Addr::LOCALHOST.into(),
        None,
        &conditions(Duration::from_millis(400)),
        &mut |_| {},
    );
    link.err().expect("no link").to_string()
}

/// A listener that has the secret of a file, as its writer would.
fn meeting(folder: &Path, mode: u32) -> (PathBuf, std::thread::JoinHandle<bool>) {
    let (ours, address) = listener();
    let text = format!("127.0.0.1 {} {} -\n", address.port(), "07".repeat(32));
    let thread = std::thread::spawn(move || {
        ours.accept::<TestMessage>(&conditions(Duration::from_secs(1)), &mut |_| {}).is_ok()
    });
    (written(folder, "meet", &text, mode), thread)
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn rank_1_rejects_shared_file() {
    let folder = tempfile::tempdir().expect("a folder");
    for mode in [0o640, 0o604, 0o622, 0o666] {
        let (path, thread) = meeting(folder.path(), mode);
        let error = connect_error(&path, 1);
        assert!(error.contains(&format!("its mode is {mode:04o}")), "{error}");
        assert!(!thread.join().expect("a thread"), "no client");
    }
    let (path, thread) = meeting(folder.path(), 0o600);
    let link = folder.path().join("link");
    symlink(&path, &link).expect("a link");
    assert!(
        connect_error(&link, 1).contains("it is a symbolic link"),
        "{}",
        connect_error(&link, 1)
    );
    assert!(!thread.join().expect("a thread"), "no client");
    // The same file is accepted with the right mode.
    let (path, thread) = meeting(folder.path(), 0o600);
    let link = connect_by_file::<TestMessage>(
        &path,
        (1, None),
        Ipv4Addr::LOCALHOST.into(),
        None,
        &conditions(GENEROUS),
        &mut |_| {},
    );
    assert!(link.is_ok() && thread.join().expect("a thread"));
}

#[test]
#[ignore = "needs root"]
fn rank_1_rejects_file_of_another_user() {
    // As in /tmp.
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
    let (path, thread) = meeting(folder.path(), 0o600);
    chown(&path, Some(NOBODY), None).expect("chown");
    let error = connect_error(&path, 1);
    assert!(error.contains("its owner is uid 65534, and this process has uid 0"), "{error}");
    assert!(!thread.join().expect("a thread"), "no client");
    // The advice for users of a launcher.
    assert!(error.contains("export GDR_PROBE_SECRET=$(openssl rand -hex 32)"), "{error}");
}

#[test]
fn rejects_directory_writable_by_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = |mode| {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("a mode")
    };
    set(0o777);
    let path = folder.path().join("meet");
    for error in [connect_error(&path, 0), connect_error(&path, 1)] {
        assert!(error.contains("any user can replace files in its directory"), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is written");
    // Sticky and owned by this user.
    set(0o1777);
    assert!(
        connect_error(&path, 0).contains("rank 1 did not connect"),
        "{}",
        connect_error(&path, 0)
    );
}

#[test]
#[ignore = "needs root"]
fn rejects_sticky_directory_of_another_user() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
    chown(folder.path(), Some(NOBODY), None).expect("chown");
    let path = folder.path().join("meet");
    for rank in [0, 1] {
        let error = connect_error(&path, rank);
        assert!(error.contains("its owner is uid 65534: neither root nor this user"), "{error}");
    }
}
