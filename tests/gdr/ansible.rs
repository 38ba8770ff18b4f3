//! The Ansible role of `packaging/ansible`: ansible-lint, and a run on this machine that installs an archive, again, and removes it. Packages are
//! tried by hand: a test must not install any.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::script;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging")
}

/// Runs a program that must end well; returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("a program of Ansible");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

#[test]
#[ignore = "needs ansible-lint"]
fn role_passes_ansible_lint() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lint = Command::new("ansible-lint");
    lint.args(["--offline", "--nocolor", "-q", "roles/gdr"])
        .env("ANSIBLE_HOME", dir.path())
        .env("XDG_CACHE_HOME", dir.path())
        .current_dir(packaging().join("ansible"));
    run(&mut lint);
}

/// An archive as `xtask dist` names and lays out its own.
fn archive(release: &Path) {
    let top = release.join("gdr-1");
    for name in ["bin", "lib", "share", "include"] {
        fs::create_dir_all(top.join(name)).expect("a directory");
    }
    script(&top.join("bin/gdr"), "#!/bin/sh\n");
    fs::copy(packaging().join("install.sh"), top.join("install.sh")).expect("a copy");
    let name = format!("gdr-1-{}.tar.gz", std::env::consts::ARCH);
    run(Command::new("tar").current_dir(release).args(["-czf", &name, "gdr-1"]));
}

#[test]
#[ignore = "needs ansible-playbook (Debian: ansible-core)"]
fn role_installs_an_archive_once_and_removes_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("release")).expect("a directory");
    archive(&at("release"));
    let playbook = "- hosts: localhost\n  connection: local\n  roles: [gdr]\n";
    fs::write(at("play.yml"), playbook).expect("a file");
    let play = |state: &str| {
        let mut command = Command::new("ansible-playbook");
        command
            .args(["-i", "localhost,", "-e"])
            .arg(format!("gdr_prefix={} gdr_state={state}", at("prefix").display()))
            .arg(at("play.yml"))
            .env("ANSIBLE_ROLES_PATH", packaging().join("ansible/roles"))
            .env("ANSIBLE_HOME", at("home"))
            .env("ANSIBLE_LOCAL_TEMP", at("temporary"))
            .env("ANSIBLE_REMOTE_TEMP", at("temporary"))
            .env("ANSIBLE_NOCOLOR", "1");
        run(&mut command)
    };
    let gdr = at("prefix/bin/gdr");
    let first = play("present");
    assert!(gdr.is_file() && !at("prefix/install.sh").exists(), "{first}");
    let second = play("present");
    assert!(!first.contains(" changed=0 ") && second.contains(" changed=0 "), "{first}{second}");
    let third = play("absent");
    assert!(!gdr.exists(), "{third}");
}
