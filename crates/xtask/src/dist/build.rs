//! Builds programs and libraries by cargo-zigbuild, whose linker knows the symbols of old glibc, and separates their
//! debug information.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::{Arch, Args, Release, text};
use crate::compile;
use crate::libraries::{File, LIBRARIES, Library, workspace};

/// The oldest glibc that programs and libraries start on: RHEL 8 has it.
pub const GLIBC: &str = "2.28";

/// The profile of a release, and its program's.
const DIST: &str = "dist";
const PROGRAM: &str = "program";

pub struct Built {
    pub gdr: Vec<u8>,
    pub libraries: Vec<(&'static Library, Vec<u8>)>,
    /// `.build-id/NN/….debug`, as gdb finds it below /usr/lib/debug.
    pub debug: Vec<File>,
}

pub fn build(args: &Args, release: &Release, arch: Arch) -> anyhow::Result<Built> {
    let program = vec!["gdr".to_owned()];
    let libraries: Vec<String> = LIBRARIES.iter().map(Library::package).collect();
    // A panic ends the program of a release; the libraries unwind.
    super::progress(arch, "compiles the program");
    let (program_profile, program, libraries) = if args.debug {
        // With xtask, gdr and its dependencies have the features of `cargo test`, which has compiled them.
        let packages = [program, libraries, vec!["xtask".to_owned()]].concat();
        let files = compile::run(&mut command("build", "dev", &packages))?;
        ("dev", files.clone(), files)
    } else {
        let program = old_glibc(args, release, arch, PROGRAM, &program)?;
        super::progress(arch, "compiles the libraries");
        (PROGRAM, program, old_glibc(args, release, arch, DIST, &libraries)?)
    };
    let mut debug = Vec::new();
    let gdr = compile::find(&program, "gdr")?;
    let linked = gdr;
    let mut gdr = separate(linked, arch, &mut debug, program_profile)?;
    if program_profile == PROGRAM {
        replace_unwind_header(&mut gdr, &fs::read(linked)?)?;
    }
    let libraries = LIBRARIES.iter().map(|library| {
        let file = compile::find(&libraries, library.artifact)?;
        Ok((library, separate(file, arch, &mut debug, DIST)?))
    });
    let libraries = libraries.collect::<anyhow::Result<_>>()?;
    Ok(Built { gdr, libraries, debug })
}

fn command(name: &str, profile: &str, packages: &[String]) -> Command {
    let mut command = compile::cargo(name);
    command.args(["--locked", "--lib", "--bins", "--profile", profile]);
    for package in packages {
        command.args(["--package", package]);
    }
    command.current_dir(workspace());
    command
}

/// Builds for [`GLIBC`]; returns the files.
fn old_glibc(
    args: &Args,
    release: &Release,
    arch: Arch,
    profile: &str,
    packages: &[String],
) -> anyhow::Result<Vec<PathBuf>> {
    let target = arch.target();
    let source = args.source.clone().unwrap_or_else(workspace);
    let directory = workspace().join(&args.build).join(arch.name());
    let python = python(&directory)?;
    let mut command = command("zigbuild", profile, packages);
    command
        .args(["--target", &format!("{target}.{GLIBC}")])
        .current_dir(&source)
        .env("CARGO_TARGET_DIR", &directory)
        .env("CARGO_ZIGBUILD_PYTHON_PATH", &python)
        .env("ZIG_GLOBAL_CACHE_DIR", directory.join("zig"))
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_ENCODED_RUSTFLAGS", flags(&source, profile)?)
        .env("GDR_COMMIT", &release.commit)
        .env("GDR_GLIBC", GLIBC)
        .env("SOURCE_DATE_EPOCH", release.time.to_string());
    compile::run(&mut command).with_context(|| {
        format!(
            "building for {target} needs cargo-zigbuild and ziglang (python3 -m pip install --no-deps --require-hashes \
             -r .ci/tools-dist.txt) and the target's standard library (rustup target add {target})"
        )
    })
}

/// A Python that cargo-zigbuild starts zig with, in zig's own directory when it links: zig compiles libunwind then, and its debug
/// information holds the working directory, on which the build id depends.
fn python(directory: &Path) -> anyhow::Result<PathBuf> {
    const SCRIPT: &str = r#"#!/bin/sh
case " $* " in
*" -c "*) ;;
*) cd "$(python3 -c 'import ziglang, os; print(os.path.dirname(ziglang.__file__))')" || exit ;;
esac
exec python3 "$@"
"#;
    fs::create_dir_all(directory)?;
    let path = directory.join("python");
    fs::write(&path, SCRIPT)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
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
        // For debuggers, in the file with debug information. The program's own tables are removed: nothing unwinds it.
        flags.push("-Cllvm-args=-force-dwarf-frame-section".to_owned());
    }
    Ok(flags.join("\x1f"))
}

/// Returns the file without symbols and debug information, which become a file of their own, and the program without tables
/// for unwinding.
fn separate(
    file: &Path,
    arch: Arch,
    debug: &mut Vec<File>,
    profile: &str,
) -> anyhow::Result<Vec<u8>> {
    let objcopy = objcopy(arch);
    let run = |arguments: &[&OsStr]| text(Command::new(&objcopy).args(arguments));
    let (symbols, stripped) = (file.with_extension("debug"), file.with_extension("stripped"));
    run(&["--only-keep-debug".as_ref(), file.as_os_str(), symbols.as_os_str()])?;
    let mut strip = vec![OsStr::new("--strip-all")];
    if profile == PROGRAM {
        for section in [".eh_frame", ".eh_frame_hdr"] {
            strip.extend([OsStr::new("--remove-section"), OsStr::new(section)]);
        }
    }
    strip.extend([file.as_os_str(), stripped.as_os_str()]);
    run(&strip)?;
    let bytes = fs::read(&stripped)?;
    let id = build_id(&bytes).with_context(|| format!("{} has no build id", file.display()))?;
    let path = format!("lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    debug.push(File::new(path, 0o644, fs::read(&symbols)?));
    Ok(bytes)
}

/// Replaces the program header of the table that was removed: with `RUST_BACKTRACE`, the unwinder would print that the table is invalid.
/// Its place gets the header `GNU_RELRO` of the linked file, by which the loader makes relocated data read-only, and which objcopy drops
/// where it moves the data within the file.
fn replace_unwind_header(file: &mut [u8], linked: &[u8]) -> anyhow::Result<()> {
    const LOAD: u64 = 1;
    const GNU_EH_FRAME: u64 = 0x6474_e550;
    const GNU_RELRO: u64 = 0x6474_e552;
    let of_kind = |file: &[u8], kind: u64| {
        let mut headers = headers(file);
        headers.find(|header| number(file, *header, 4) == kind)
    };
    let Some(unused) = of_kind(file, GNU_EH_FRAME) else {
        bail!("the program has no header GNU_EH_FRAME");
    };
    if of_kind(file, GNU_RELRO).is_some() {
        file[unused..unused + 4].fill(0);
        return Ok(());
    }
    let relro = of_kind(linked, GNU_RELRO).context("the linked program has no GNU_RELRO")?;
    let mut header = linked[relro..relro + HEADER].to_vec();
    let address = number(&header, VIRTUAL, 8);
    let has_address = |load: &usize| {
        let start = number(file, load + VIRTUAL, 8);
        number(file, *load, 4) == LOAD
            && (start..start + number(file, load + IN_MEMORY, 8)).contains(&address)
    };
    let load = headers(file)
        .find(has_address)
        .context("no segment has the data that are made read-only")?;
    let moved = number(file, load + OFFSET, 8) + address - number(file, load + VIRTUAL, 8);
    header[OFFSET..OFFSET + 8].copy_from_slice(&moved.to_le_bytes());
    file[unused..unused + HEADER].copy_from_slice(&header);
    Ok(())
}

/// A program header of ELF for 64 bits, and the places of its fields (System V ABI, chapter 5).
const HEADER: usize = 56;
const OFFSET: usize = 8;
const VIRTUAL: usize = 16;
const IN_MEMORY: usize = 40;

/// Where the program headers of a little-endian ELF file for 64 bits are: place, size and number are at 32, 54 and 56.
fn headers(file: &[u8]) -> impl Iterator<Item = usize> + use<> {
    let [place, size, count] =
        [(32, 8), (54, 2), (56, 2)].map(|(at, bytes)| number(file, at, bytes) as usize);
    let whole = file.len().saturating_sub(HEADER);
    (0..count).map(move |header| place + header * size).filter(move |header| *header <= whole)
}

fn number(file: &[u8], at: usize, size: usize) -> u64 {
    let bytes = file.get(at..at + size).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// objcopy of binutils is made for one architecture, and Debian names the others.
fn objcopy(arch: Arch) -> PathBuf {
    let named = PathBuf::from(format!("/usr/bin/{}-linux-gnu-objcopy", arch.name()));
    if named.exists() {
        named
    } else if std::env::consts::ARCH == arch.name() {
        "objcopy".into()
    } else {
        "llvm-objcopy".into()
    }
}

/// The build id: a note named GNU of type 3, with 20 bytes.
fn build_id(file: &[u8]) -> Option<String> {
    let note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let at = file.windows(note.len()).position(|bytes| bytes == note)? + note.len();
    let id = file.get(at..at + 20)?;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What readelf prints of a file.
    fn readelf(option: &str, file: &Path) -> String {
        let output = Command::new("readelf").arg(option).arg(file).output().expect("readelf");
        String::from_utf8(output.stdout).expect("text")
    }

    #[test]
    #[ignore = "needs binutils"]
    fn packed_program_has_full_relro() {
        let linked = std::env::current_exe().expect("this program");
        let directory = tempfile::tempdir().expect("a directory");
        let own = directory.path().join("program");
        fs::copy(&linked, &own).expect("a copy");
        let arch = match std::env::consts::ARCH {
            "aarch64" => Arch::Aarch64,
            _ => Arch::X86_64,
        };
        let mut bytes = separate(&own, arch, &mut Vec::new(), PROGRAM).expect("stripped");
        let stripped = directory.path().join("stripped");
        fs::write(&stripped, &bytes).expect("the file");
        assert!(
            !readelf("-lW", &stripped).contains("GNU_RELRO"),
            "objcopy keeps the header: nothing is to be replaced"
        );
        replace_unwind_header(&mut bytes, &fs::read(&linked).expect("the program")).expect("ELF");
        let packed = directory.path().join("packed");
        fs::write(&packed, &bytes).expect("the file");
        fs::set_permissions(&packed, fs::Permissions::from_mode(0o755)).expect("a mode");
        let headers = readelf("-lW", &packed);
        assert!(!headers.contains("GNU_EH_FRAME"), "{headers}");
        let line = |text: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.contains("GNU_RELRO"));
            let words = line.expect("the header").split_whitespace();
            words.map(str::to_owned).collect()
        };
        let [new, old] = [line(&headers), line(&readelf("-lW", &linked))];
        // All but the offset in the file.
        assert_eq!((&new[2..], &new[0]), (&old[2..], &old[0]));
        assert!(readelf("-dW", &packed).contains("NOW"));
        let listed =
            Command::new(&packed).args(["--list", "packed_program"]).output().expect("it starts");
        assert!(String::from_utf8_lossy(&listed.stdout).contains("has_full_relro"));
    }
}
