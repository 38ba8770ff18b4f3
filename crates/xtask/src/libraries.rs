//! The C libraries of this workspace, one entry each, and their installed files: versioned file and links, headers,
//! pkg-config file. `install` puts them into a prefix, `dist` packs them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

pub static LIBRARIES: &[Library] = &[
    Library {
        name: "gdrapi",
        artifact: "libgdrapi.so",
        alias: None,
        version: ("gdrapi.h", "GDR_API"),
        headers: &["gdrapi.h", "gdrconfig.h"],
        summary: "gdrcopy library that needs no kernel module",
        // gdrcopy 2.2 and earlier had the library in the deb of that name.
        other_debs: &["libgdrapi", "gdrcopy (<= 2.2-1)"],
        other_rpms: &["gdrcopy"],
        needs: &[],
        needs_debs: &[],
        documents: &["docs/gdrcopy.md", "crates/gdrapi-capi/examples/copy.c"],
        needs_rpms: &[],
    },
    Library {
        name: "gdsync",
        artifact: "libgdsync_capi.so",
        alias: None,
        version: ("gdsync/core.h", "GDS_API"),
        headers: &[
            "gdsync.h",
            "gdsync/compat/infiniband/gdsync_exp.h",
            "gdsync/compat/infiniband/verbs_exp.h",
            "gdsync/core.h",
            "gdsync/device.cuh",
            "gdsync/mlx5.h",
            "gdsync/tools.h",
        ],
        summary: "GPUDirect Async library for upstream rdma-core",
        other_debs: &["libgdsync"],
        other_rpms: &["libgdsync"],
        needs: &["gdrapi"],
        needs_debs: &["libibverbs-dev"],
        documents: &["docs/tasks/libgdsync.md"],
        needs_rpms: &["pkgconfig(libibverbs)"],
    },
    Library {
        name: "mp",
        artifact: "libmp_capi.so",
        // libmp's build has its comm library, with libmp in it, as a second library.
        alias: Some("mpcomm"),
        version: ("mp.h", "MP_API"),
        headers: &["comm.h", "mp.h", "mp/comm.h", "mp/device.cuh"],
        summary: "messages of MPI ranks in the order of a CUDA stream",
        other_debs: &["libmp"],
        other_rpms: &["libmp"],
        needs: &["gdrapi", "gdsync"],
        // mpi.h is that of the user's MPI.
        needs_debs: &[],
        documents: &["docs/tasks/libmp.md"],
        needs_rpms: &[],
    },
];

#[derive(Debug)]
pub struct Library {
    /// Name in the library's file; the crate is NAME-capi.
    pub name: &'static str,
    /// File name of cargo's output.
    pub artifact: &'static str,
    /// Another name that programs link it by.
    pub alias: Option<&'static str>,
    /// The header with the version, and the prefix of its two constants.
    version: (&'static str, &'static str),
    headers: &'static [&'static str],
    /// The first line of the package's description.
    pub summary: &'static str,
    /// Packages of others with the same library file.
    pub other_debs: &'static [&'static str],
    pub other_rpms: &'static [&'static str],
    /// Libraries of this list whose headers its own headers include.
    pub needs: &'static [&'static str],
    /// Packages of distributions that its headers need.
    pub needs_debs: &'static [&'static str],
    /// Description and example, which the package of the headers has.
    pub documents: &'static [&'static str],
    pub needs_rpms: &'static [&'static str],
}

/// One installed file, relative to the prefix or the root of a package.
#[derive(Debug, Clone)]
pub struct File {
    pub path: String,
    pub content: Content,
}

#[derive(Debug, Clone)]
pub enum Content {
    Bytes { mode: u32, bytes: Vec<u8> },
    Link(String),
}

impl Library {
    pub fn by_name(name: &str) -> Option<&'static Self> {
        LIBRARIES.iter().find(|library| library.name == name)
    }

    /// Name of the crate.
    pub fn package(&self) -> String {
        format!("{}-capi", self.name)
    }

    fn directory(&self) -> PathBuf {
        workspace().join("crates").join(self.package())
    }

    /// The version of the interface: the number in the SONAME, and the next.
    pub fn interface(&self) -> anyhow::Result<(u32, u32)> {
        let (header, constants) = self.version;
        let header = self.directory().join("include").join(header);
        let text = fs::read_to_string(&header).with_context(|| header.display().to_string())?;
        version(&text, constants)
    }

    /// What a program needs at run time; `library` is the content of cargo's output.
    pub fn runtime(&self, lib: &str, library: Vec<u8>) -> anyhow::Result<Vec<File>> {
        let (name, (major, minor)) = (self.name, self.interface()?);
        let (soname, full) =
            (format!("lib{name}.so.{major}"), format!("lib{name}.so.{major}.{minor}"));
        let mut files = vec![
            File::link(format!("{lib}/{soname}"), &full),
            File::new(format!("{lib}/{full}"), 0o755, library),
        ];
        let alias = self.alias.map(|alias| format!("{lib}/lib{alias}.so.{major}"));
        files.extend(alias.map(|alias| File::link(alias, &soname)));
        Ok(files)
    }

    /// What the compiler needs; `prefix` is what the pkg-config file says, `lib` a directory below it.
    pub fn development(&self, prefix: &str, lib: &str) -> anyhow::Result<Vec<File>> {
        let (name, (major, minor)) = (self.name, self.interface()?);
        let target = format!("lib{name}.so.{major}");
        let links = [Some(name), self.alias].into_iter().flatten();
        let mut files: Vec<File> =
            links.map(|name| File::link(format!("{lib}/lib{name}.so"), &target)).collect();
        for header in self.headers {
            let bytes = fs::read(self.directory().join("include").join(header))?;
            files.push(File::new(format!("include/{header}"), 0o644, bytes));
        }
        let libdir = format!("libdir=${{prefix}}/{lib}\n");
        let text = fs::read_to_string(self.directory().join(format!("{name}.pc.in")))?
            .replace("@PREFIX@", prefix)
            .replace("libdir=${prefix}/lib\n", &libdir)
            .replace("@VERSION@", &format!("{major}.{minor}"));
        let path = format!("{lib}/pkgconfig/{name}.pc");
        files.push(File::new(path, 0o644, text));
        Ok(files)
    }
}

impl File {
    pub fn new(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        let (path, bytes) = (path.into(), bytes.into());
        let content = Content::Bytes { mode, bytes };
        Self { path, content }
    }

    fn link(path: String, target: &str) -> Self {
        let content = Content::Link(target.to_owned());
        Self { path, content }
    }
}

/// Values of `…_MAJOR_VERSION` and `…_MINOR_VERSION` in the header.
fn version(header: &str, constants: &str) -> anyhow::Result<(u32, u32)> {
    let number = |which: &str| -> anyhow::Result<u32> {
        let name = format!("{constants}_{which}_VERSION");
        let line =
            header.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(&name));
        let text = line.with_context(|| format!("the header defines no {name}"))?;
        text.trim().parse().with_context(|| format!("{name} is {text}"))
    };
    Ok((number("MAJOR")?, number("MINOR")?))
}

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
