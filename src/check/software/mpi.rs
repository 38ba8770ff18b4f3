//! mpi.cuda-aware: the MPI and UCX libraries that the loader picks were built for CUDA.

use crate::check::{Check, Ctx, Hint, Judgement, Source, or_skip, unknown_if, unread_library};
use crate::model::{ActionClass, Area, Fact, Kind, Library, Severity};

const SOURCE: &str = "/etc/ld.so.cache, LD_LIBRARY_PATH";
/// UCX's module for gdrcopy.
const GDR_COPY: &str = "libuct_cuda_gdrcopy.so";

pub const CHECK: Check = Check {
    id: "mpi.cuda-aware",
    rule: "The MPI and UCX that the loader picks, and the UCX of Python packages, are built \
        with CUDA, and find gdrcopy if they support it. Only the running program shows which \
        GPU a rank uses, and whether it has a CUDA context before MPI_Init: this is \
        explained here, not judged.",
    sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages, plugins beside libmpi and \
        libucp, strings in libmpi",
    severity: Severity::Info,
    why: "An MPI without CUDA treats a GPU pointer as a host pointer, and the program ends in \
        a segmentation fault; a UCX without gdr_copy stages small messages. CUDA-aware MPI \
        began with Open MPI 1.7 and MVAPICH2 1.8. Each process selects its GPU by its local \
        rank before MPI_Init, and some libraries need a CUDA context by then. MVAPICH2 needs \
        MV2_USE_CUDA=1; MV2_CUDA_BLOCK_SIZE sets the block size of its pipeline, \
        MV2_CUDA_IPC=1 lets processes of a node share GPU memory, MV2_USE_SHARED_MEM and \
        MV2_SMP_SEND_BUF_SIZE control its host path.",
    remedy: "Use an MPI and a UCX configured --with-cuda (and UCX --with-gdrcopy): from the HPC \
        SDK, HPC-X, or your own build. To check: ompi_info --parsable -l 9 --all | grep \
        mpi_built_with_cuda_support:value; ucx_info -d | grep cuda.",
    action: ActionClass::Install
        .running("https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/cuda.html"),
    references: &[
        "https://www.open-mpi.org/faq/?category=runcuda",
        "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/cuda.html",
        "https://openucx.readthedocs.io/en/master/faq.html",
    ],
    reads: &[Source::Software],
    hint: Some(Hint {
        cause: "The MPI library, or UCX below it, does not know GPU memory.",
        words: "cuda-aware=6 mpi=4 ucx=4 segfault=3 gpu-memory=2 cuda-ipc=2 bad-address=2 gpu-word=1 failure=1 \
            missing=1 build=1 unsupported=1 rdma-device=-1 kv-transfer=-1 nccl=-1 driver=-1 guest=-2 \
            completion=-2 port=-2 memlock=-3 verbs-object=-3 gid=-3",
    }),
    judge: mpi,
    ..Check::DEFAULT
};

/// One judgement for each library that the loader picks and each UCX of a Python package.
fn mpi(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let software = &ctx.facts.software;
    if let Some(unknown) = unknown_if(&software.libraries, "machine", Area::Files, SOURCE) {
        return vec![unknown];
    }
    if ctx.topology.rows_of(Kind::Gpu).next().is_none() {
        return vec![Judgement::skip("machine", "There is no GPU.")];
    }
    let mut judgements = Vec::new();
    judgements.extend(software.picked("libmpi.so.40").map(open_mpi));
    judgements.extend(software.picked("libmpi.so.12").map(|library| mpich(ctx, library)));
    for ucx in software.usable("libucp.so.0") {
        judgements.push(ucx_cuda(ucx));
        judgements.extend(gdr_copy(ctx, ucx));
    }
    judgements.extend(unread_library(ctx, "libucp.so.0"));
    or_skip(judgements, "The loader finds neither an MPI nor UCX.")
}

/// Version 4 and some builds of 5 have components in files, others inside the libraries.
fn open_mpi(library: &Library) -> Judgement {
    let subject = named("Open MPI", library);
    let components = library.plugins.as_deref().unwrap_or_default();
    let inside = match &library.words {
        Fact::Known(words) => words,
        Fact::Unknown(why) if components.is_empty() => {
            return Judgement::unknown(subject, *why, Area::Files, "libopen-pal beside libmpi");
        }
        Fact::Unknown(_) => &Vec::new(),
    };
    let found: Vec<&String> = components.iter().chain(inside).collect();
    if let Some(found) = found.first() {
        let pass = Judgement::pass(subject.clone(), format!("{subject} was built for CUDA."));
        return pass.evidence(&library.path, found.as_str());
    }
    if library.plugins.is_none() && inside.is_empty() {
        let unknown = Judgement::undetermined(subject, "No components in the usual directories.");
        return unknown
            .evidence(&library.path, "no directory of components beside it")
            .needs("ompi_info --parsable -l 9 --all | grep mpi_built_with_cuda_support:value");
    }
    without(subject, library, "no component for CUDA")
}

fn mpich(ctx: &Ctx<'_>, library: &Library) -> Judgement {
    let words = match &library.words {
        Fact::Known(words) => words,
        Fact::Unknown(why) => {
            return Judgement::unknown(named("MPI", library), *why, Area::Files, &library.path);
        }
    };
    let has = |word: &str| words.iter().any(|found| found == word);
    if has("MVAPICH2") {
        let subject = named("MVAPICH2", library);
        if !has("MV2_USE_CUDA") {
            return without(subject, library, "no string MV2_USE_CUDA");
        }
        let variables = ctx.facts.environment.known();
        let value = variables.and_then(|variables| variables.get("MV2_USE_CUDA"));
        return match value.map(String::as_str) {
            Some("1") => Judgement::pass(
                subject.clone(),
                format!("{subject} was built for CUDA, and uses it."),
            )
            .evidence("MV2_USE_CUDA", "1"),
            value => Judgement::info(
                subject.clone(),
                format!("{subject} was built for CUDA, and uses it with MV2_USE_CUDA=1."),
            )
            .evidence("MV2_USE_CUDA", value.unwrap_or("not set"))
            .advice("Set MV2_USE_CUDA=1, and MV2_USE_GPUDIRECT=1 with MVAPICH2-GDR."),
        };
    }
    if has("I_MPI_OFFLOAD") {
        let subject = named("Intel MPI", library);
        let message = format!("{subject} accepts GPU pointers only with I_MPI_OFFLOAD set.");
        return Judgement::info(subject, message).evidence(&library.path, "I_MPI_OFFLOAD");
    }
    let subject = named("MPICH", library);
    if has("yaksuri_cuda") {
        Judgement::pass(subject.clone(), format!("{subject} was built for CUDA."))
            .evidence(&library.path, "yaksuri_cuda")
    } else {
        without(subject, library, "no string yaksuri_cuda")
    }
}

fn ucx_cuda(library: &Library) -> Judgement {
    let subject = named("UCX", library);
    match &library.plugins {
        Some(plugins) if plugins.iter().any(|name| name.contains("cuda")) => {
            let pass = Judgement::pass(subject.clone(), format!("{subject} was built for CUDA."));
            pass.evidence(&library.path, plugins.join(", "))
        }
        Some(_) => without(subject, library, "no module for CUDA"),
        None => Judgement::undetermined(subject, "No modules in the usual directories.")
            .evidence(&library.path, "no directory ucx beside it")
            .needs("ucx_info -d | grep cuda"),
    }
}

/// The judgement if UCX has its gdrcopy module, but the loader finds no libgdrapi.
fn gdr_copy(ctx: &Ctx<'_>, library: &Library) -> Option<Judgement> {
    let plugins = library.plugins.as_ref()?;
    if !plugins.iter().any(|name| name == GDR_COPY)
        || ctx.facts.software.picked("libgdrapi.so.2").is_some()
    {
        return None;
    }
    let subject = named("UCX", library);
    let message = format!(
        "{subject} has the module gdr_copy, and the loader finds no libgdrapi.so.2: the module does not load."
    );
    Some(
        Judgement::broken(subject, message)
            .evidence(&library.path, GDR_COPY)
            .evidence(SOURCE, "no libgdrapi.so.2")
            .advice(
                "Install libgdrapi (NVIDIA's or gdr's) in a directory of the loader, and run ldconfig.",
            ),
    )
}

fn without(subject: String, library: &Library, evidence: &str) -> Judgement {
    let message =
        format!("{subject} was built without CUDA: it treats a GPU pointer as a host pointer.");
    Judgement::broken(subject, message)
        .evidence(&library.path, evidence)
        .advice("Use one configured --with-cuda: from the HPC SDK, HPC-X, or your own build.")
}

fn named(what: &str, library: &Library) -> String {
    format!("{what} ({})", library.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{assert_outcome, assert_says, findings, only, with_libraries};
    use crate::model::{Found, Outcome};

    fn library(name: &str, plugins: Option<&[&str]>, words: &[&str]) -> Library {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Library {
            name: name.to_owned(),
            path: format!("/usr/lib64/{name}"),
            version: None,
            found: Found::Cache,
            plugins: plugins.map(list),
            words: Fact::Known(list(words)),
        }
    }

    #[test]
    fn open_mpi_has_cuda_component() {
        for (plugins, words, outcome) in [
            (Some(&["mca_btl_smcuda.so"][..]), &[][..], Outcome::Pass),
            (Some(&[][..]), &["mca_accelerator_cuda_component"][..], Outcome::Pass),
            (Some(&[][..]), &[][..], Outcome::Info),
            (None, &[][..], Outcome::Unknown),
        ] {
            let found = only(
                "mpi.cuda-aware",
                &with_libraries(vec![library("libmpi.so.40", plugins, words)]),
            );
            assert_eq!(found.outcome, outcome, "{plugins:?} {words:?}");
        }
    }

    #[test]
    fn mvapich_needs_variable() {
        let mut facts =
            with_libraries(vec![library("libmpi.so.12", None, &["MV2_USE_CUDA", "MVAPICH2"])]);
        assert_says(&only("mpi.cuda-aware", &facts), "with MV2_USE_CUDA=1");
        facts.environment = Fact::Known([("MV2_USE_CUDA".to_owned(), "1".to_owned())].into());
        assert_eq!(only("mpi.cuda-aware", &facts).outcome, Outcome::Pass);
        let found =
            only("mpi.cuda-aware", &with_libraries(vec![library("libmpi.so.12", None, &[])]));
        assert!(found.message.contains("MPICH") && found.message.contains("without CUDA"));
    }

    #[test]
    fn ucx_needs_cuda_modules_and_libgdrapi() {
        let ucx = |plugins: &[&str]| library("libucp.so.0", Some(plugins), &[]);
        assert_outcome("mpi.cuda-aware", &with_libraries(vec![ucx(&[])]), Outcome::Info);
        let facts = with_libraries(vec![ucx(&["libuct_cuda.so", GDR_COPY])]);
        let outcomes: Vec<_> =
            findings("mpi.cuda-aware", &facts, &[]).iter().map(|f| f.outcome).collect();
        assert_eq!(outcomes, [Outcome::Pass, Outcome::Info]);
        let facts = with_libraries(vec![
            ucx(&["libuct_cuda.so", GDR_COPY]),
            library("libgdrapi.so.2", None, &[]),
        ]);
        assert_eq!(only("mpi.cuda-aware", &facts).outcome, Outcome::Pass);
    }

    #[test]
    fn judges_ucx_of_python_package_too() {
        let plain = library("libucp.so.0", Some(&[]), &[]);
        let mut packaged = library("libucp.so.0", Some(&["libuct_cuda.so"]), &[]);
        packaged.found = Found::PythonPackage;
        packaged.path = "/usr/lib/python3.12/site-packages/libucx/lib/libucp.so.0".to_owned();
        let found = findings("mpi.cuda-aware", &with_libraries(vec![plain, packaged]), &[]);
        let outcomes: Vec<_> = found.iter().map(|found| found.outcome).collect();
        assert_eq!(outcomes, [Outcome::Info, Outcome::Pass]);
        assert!(found[1].subject.contains("site-packages"));
    }
}
