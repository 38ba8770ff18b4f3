//! Builds programs and libraries by cargo-zigbuild, whose linker knows the symbols of old glibc, and separates their
//! debug information.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::{Arch, Args, Release, text};
use crate::libraries::{File, LIBRARIES, Library, workspace};

/// The oldest glibc that programs and libraries start on: RHEL 8 has it.
pub const GLIBC: &str = "2.28";

/// The profile of a release, and its program's.
pub const DIST: &str = "dist";
const PROGRAM: &str = "program";

pub struct Built {
    pub gdr: Vec<u8>,
    pub libraries: Vec<(&'static Library, Vec<u8>)>,
    /// `.build-id/NN/….debug`, as gdb finds it below /usr/lib/debug.
    pub debug: Vec<File>,
}

pub fn build(args: &Args, release: &Release, arch: Arch) -> anyhow::Result<Built> {
    let target = arch.target();
    let source = args.source.clone().unwrap_or_else(workspace);
    let directory = workspace().join(&args.build).join(arch.name());
    let program = vec!["--package".to_owned(), "gdr".to_owned()];
    let libraries: Vec<String> = LIBRARIES
        .iter()
        .flat_map(|library| ["--package".to_owned(), library.package()])
        .collect();
    // A panic ends the program; the libraries unwind.
    let profiles = match args.profile.as_str() {
        DIST => vec![(PROGRAM, program), (DIST, libraries)],
        both => vec![(both, [program, libraries].concat())],
    };
    for (profile, packages) in &profiles {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .args(["zigbuild", "--quiet", "--locked", "--lib", "--bins"])
            .args(["--profile", profile])
            .args(["--target", &format!("{target}.{GLIBC}")])
            .args(packages)
            .current_dir(&source)
            .env("CARGO_TARGET_DIR", &directory)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_ENCODED_RUSTFLAGS", flags(&source, profile)?)
            .env("GDR_COMMIT", &release.commit)
            .env("GDR_GLIBC", GLIBC)
            .env("SOURCE_DATE_EPOCH", release.time.to_string());
        let status = command.status().context("cannot run cargo")?;
        if !status.success() {
            bail!(
                "cargo zigbuild for {target}: {status}. It needs cargo-zigbuild and ziglang (python3 -m pip install --no-deps \
                 --require-hashes -r .ci/tools-dist.txt) and the target's standard library (rustup target add {target})"
            );
        }
    }
    let made = |profile: &str| {
        let name = match profile {
            "dev" => "debug",
            profile => profile,
        };
        directory.join(&target).join(name)
    };
    let program = profiles.first().map_or(DIST, |(profile, _)| profile);
    let mut debug = Vec::new();
    let gdr = separate(&made(program).join("gdr"), arch, &mut debug)?;
    let libraries = LIBRARIES.iter().map(|library| {
        let file = made(&args.profile).join(library.artifact);
        Ok((library, separate(&file, arch, &mut debug)?))
    });
    let libraries = libraries.collect::<anyhow::Result<_>>()?;
    Ok(Built {
        gdr,
        libraries,
        debug,
    })
}

/// Flags that keep the paths of this machine out of the files, and tables that nothing reads.
fn flags(source: &Path, profile: &str) -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = text(Command::new(rustc).args(["--print", "sysroot"]))?;
    let home = match std::env::var("CARGO_HOME") {
        Ok(home) => home,
        Err(_) => std::env::var("HOME").context("HOME is not set")? + "/.cargo",
    };
    let source = fs::canonicalize(source)?;
    let mut flags = vec![
        format!("--remap-path-prefix={home}/registry/src=/cargo"),
        format!("--remap-path-prefix={}=/gdr", source.display()),
        format!("--remap-path-prefix={sysroot}/lib/rustlib/src/rust=/rust"),
        "-Clink-arg=-Wl,--build-id=sha1".to_owned(),
    ];
    if profile == PROGRAM {
        // Nothing unwinds it, and debuggers read the tables of the file with debug information.
        flags.push("-Cforce-unwind-tables=no".to_owned());
    }
    Ok(flags.join("\x1f"))
}

/// Returns the file without symbols and debug information, which become a file of their own.
fn separate(file: &Path, arch: Arch, debug: &mut Vec<File>) -> anyhow::Result<Vec<u8>> {
    let objcopy = objcopy(arch);
    let run = |arguments: &[&std::ffi::OsStr]| text(Command::new(&objcopy).args(arguments));
    let (symbols, stripped) = (
        file.with_extension("debug"),
        file.with_extension("stripped"),
    );
    run(&[
        "--only-keep-debug".as_ref(),
        file.as_os_str(),
        symbols.as_os_str(),
    ])?;
    run(&[
        "--strip-all".as_ref(),
        file.as_os_str(),
        stripped.as_os_str(),
    ])?;
    let bytes = fs::read(&stripped)?;
    let id = build_id(&bytes).with_context(|| format!("{} has no build id", file.display()))?;
    let path = format!("lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    debug.push(File::new(path, 0o644, fs::read(&symbols)?));
    Ok(bytes)
}

/// objcopy of binutils is made for one architecture, and Debian names the others.
fn objcopy(arch: Arch) -> PathBuf {
    let named = PathBuf::from(format!("/usr/bin/{}-linux-gnu-objcopy", arch.name()));
    match () {
        () if named.exists() => named,
        () if std::env::consts::ARCH == arch.name() => "objcopy".into(),
        () => "llvm-objcopy".into(),
    }
}

/// The build id: a note named GNU of type 3, with 20 bytes.
fn build_id(file: &[u8]) -> Option<String> {
    let note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let at = file.windows(note.len()).position(|bytes| bytes == note)? + note.len();
    let id = file.get(at..at + 20)?;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}
