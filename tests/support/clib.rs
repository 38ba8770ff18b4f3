//! A C library as a file: what it exports, what it needs, and programs compiled against it. For the tests of `crates/*-capi`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `target/debug` or its like: the parent of the directory this test lies in.
pub fn built() -> PathBuf {
    let mut path = std::env::current_exe().expect("the path of this test");
    path.pop();
    path.pop();
    path
}

/// The address sanitizer's flags, when the library was built with it: .ci/run.
pub fn flags() -> Vec<String> {
    let flags = std::env::var("GDR_TEST_CFLAGS").unwrap_or_default();
    flags.split_whitespace().map(str::to_owned).collect()
}

/// Fails with the program's output unless it succeeded.
pub fn succeed(what: &str, output: &Output) {
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn output_of(program: &str, arguments: &[&str], library: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg(library)
        .output()
        .unwrap_or_else(|error| panic!("{program}, of binutils: {error}"));
    succeed(program, &output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The functions that a library exports, and nothing else than functions, sorted.
pub fn exported(library: &Path) -> Vec<String> {
    let text = output_of("nm", &["-D", "--defined-only"], library);
    let mut names = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, kind, name] = fields.as_slice() else {
            panic!("nm: {line}");
        };
        assert_eq!(kind, "T", "{name} is not a function of global text");
        names.push(name.to_owned());
    }
    names.sort_unstable();
    names
}

/// Checks the name that the loader knows a library by, that it needs libc alone, and that no dlclose unloads it. Returns what
/// readelf printed.
pub fn check_dynamic_section(library: &Path, soname: &str) -> String {
    let text = output_of("readelf", &["-d", "-V"], library);
    let values = |key: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains(key));
        let value = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned());
        lines.filter_map(value).collect()
    };
    assert_eq!(values("(SONAME)"), [soname]);
    let needed = values("(NEEDED)");
    let known = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
    for library in &needed {
        // A sanitized build is not a library that ships.
        let sanitizer = std::env::var_os("GDR_TEST_CFLAGS").is_some() && library.contains("asan");
        assert!(known.contains(&library.as_str()) || sanitizer, "needs {library}");
    }
    assert!(needed.iter().any(|library| library == "libc.so.6"));
    assert!(values("(RUNPATH)").is_empty() && values("(RPATH)").is_empty());
    assert!(
        text.contains("NODELETE"),
        "its threads would lose their code to a dlclose, and registered memory its owner"
    );
    text
}

/// Compiles `tests/c/layout.c` as C and as C++ with the compilers' `arguments` and against the library, as programs name it
/// (`libNAME.so.2`), and runs it.
pub fn check_layout(library: &Path, name: &str, arguments: &[String]) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().expect("a directory");
    let copy = directory.path().join(format!("{name}.so"));
    std::fs::copy(library, &copy).expect("a copy of the library");
    let link = directory.path().join(format!("{name}.so.2"));
    std::os::unix::fs::symlink(&copy, link).expect("a link to the library");
    for (compiler, language, standard) in [("cc", "c", "-std=c11"), ("c++", "c++", "-std=c++17")] {
        let program = directory.path().join(language);
        let output = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Werror", "-x", language])
            .args(arguments)
            .arg(package.join("tests/c/layout.c"))
            .args(["-x", "none", "-o"])
            .arg(&program)
            .arg(&copy)
            .args(flags())
            .output();
        succeed(compiler, &output.expect("a compiler"));
        let output = Command::new(&program).env("LD_LIBRARY_PATH", directory.path()).output();
        succeed(language, &output.expect("the program just compiled"));
    }
}
