//! sw.toolkit: the loader picks the driver's own libcuda, and no other library or toolkit conflicts with it.

use crate::check::{Check, Ctx, Hint, Judgement, Source, unknown_if, version, words};
use crate::model::{ActionClass, Area, CudaOutcome, Fact, Found, Library, Severity, Why};

const SOURCE: &str = "/etc/ld.so.cache, LD_LIBRARY_PATH";
const CUDA: &str = "libcuda.so.1";

pub const CHECK: Check = Check {
    id: "sw.toolkit",
    rule: "The loader finds one driver library, of the loaded driver's version.",
    sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, /sys/module/nvidia/version",
    severity: Severity::Info,
    why: "Programs use the first libcuda.so.1 that the loader finds. The kernel module rejects \
        a libcuda of another driver, and a stub returns error 34 from every call. A CUDA \
        toolkit from Conda beside a driver of the distribution works, unless both install a \
        library of the same name.",
    remedy: "Remove the directory of the other library from LD_LIBRARY_PATH, or remove the \
        package that installs it.",
    action: ActionClass::Install.running("https://docs.nvidia.com/deploy/cuda-compatibility/"),
    references: &["https://docs.nvidia.com/deploy/cuda-compatibility/"],
    explained_by: &["gpu.driver"],
    reads: &[Source::Software, Source::Cuda],
    hint: Some(Hint {
        cause: "The program finds another libcuda or CUDA runtime than those of the driver.",
        words: "cuda-version=4 driver=2 missing=1 mismatch=2 failure=1",
    }),
    judge: toolkit,
    ..Check::DEFAULT
};

/// Judges the libcuda that the loader picks and the others.
fn toolkit(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let software = &ctx.facts.software;
    if let Some(unknown) = unknown_if(&software.libraries, "machine", Area::Files, SOURCE) {
        return vec![unknown];
    }
    let Some(picked) = software.picked(CUDA) else {
        return vec![unlisted(ctx)];
    };
    let driver = match version::driver(ctx.facts) {
        Fact::Known(Some(driver)) => driver,
        Fact::Known(None) => return vec![Judgement::no_driver("machine")],
        Fact::Unknown(why) => {
            return vec![Judgement::unknown(CUDA, why, Area::Sys, "/sys/module/nvidia/version")];
        }
    };
    let judgement = judge(ctx, picked, &driver);
    let judgement = software.all(CUDA).fold(judgement, |judgement, library| {
        judgement
            .evidence(&library.path, library.version.as_deref().unwrap_or("no version in its name"))
    });
    vec![judgement.evidence("/sys/module/nvidia/version", driver)]
}

/// Neither the loader's cache nor the directories of the system in LD_LIBRARY_PATH have it: it may be loaded all the same.
fn unlisted(ctx: &Ctx<'_>) -> Judgement {
    let path = match &ctx.facts.cuda {
        Fact::Known(CudaOutcome::Read(cuda)) => cuda.library.as_deref(),
        Fact::Known(CudaOutcome::Failed { library, .. }) => library.as_deref(),
        Fact::Known(CudaOutcome::Absent { .. }) => {
            return Judgement::skip("machine", "The loader finds no libcuda.so.1.");
        }
        Fact::Unknown(Why::NotCovered) => return unasked(ctx),
        Fact::Unknown(_) => None,
    };
    let Some(path) = path else {
        let message = "libcuda.so.1 was loaded, but neither the loader's cache nor the system's directories in LD_LIBRARY_PATH list it.";
        return Judgement::undetermined(CUDA, message)
            .evidence(SOURCE, "not listed")
            .needs("a libcuda.so.1 that answers");
    };
    let message = format!(
        "{path} was loaded. Neither the loader's cache nor the system's directories in LD_LIBRARY_PATH list it, so its version is not \
         compared."
    );
    Judgement::info(CUDA, message).evidence(SOURCE, "not listed")
}

/// It is in no list, and no program loaded it: with a driver there may be one elsewhere.
fn unasked(ctx: &Ctx<'_>) -> Judgement {
    match version::driver(ctx.facts) {
        Fact::Known(None) => Judgement::no_driver("machine"),
        Fact::Known(Some(_)) | Fact::Unknown(_) => {
            let message = "Neither the loader's cache nor the system's directories in LD_LIBRARY_PATH list libcuda.so.1, and whether it loads all the \
                same is unknown.";
            let judgement = Judgement::unknown(CUDA, Why::NotCovered, Area::Cuda, CUDA);
            Judgement { message: message.to_owned(), ..judgement }
        }
    }
}

fn judge(ctx: &Ctx<'_>, picked: &Library, driver: &str) -> Judgement {
    let path = &picked.path;
    if path.contains("/stubs/") {
        let message = format!(
            "Stub instead of libcuda: the loader picks {path}, and every call returns error 34 (CUDA_ERROR_STUB_LIBRARY)."
        );
        return Judgement::broken(CUDA, message)
            .advice("Remove the stubs directory from LD_LIBRARY_PATH.");
    }
    // cuda-compat is a newer libcuda for an older module.
    let compat = path.contains("/compat");
    match picked.version.as_deref() {
        Some(version) if version != driver && !compat => {
            let message = format!(
                "Two driver installations are mixed: the loader picks {path} of driver {version}, and the loaded module is {driver}."
            );
            return Judgement::broken(CUDA, message).advice(
                "Remove the packages of one of them, run ldconfig, or reboot after an update.",
            );
        }
        _ => {}
    }
    let others: Vec<&Library> = ctx
        .facts
        .software
        .all(CUDA)
        .filter(|library| library.path != picked.path && library.version != picked.version)
        .collect();
    if !others.is_empty() && !compat {
        let message = format!(
            "The loader picks {path}; there is also {}, which a program may get with another LD_LIBRARY_PATH.",
            words::list(others.iter().map(|library| &library.path))
        );
        return Judgement::info(CUDA, message);
    }
    let conda = picked.found != Found::LibraryPath
        && ctx
            .facts
            .environment
            .known()
            .and_then(|variables| variables.get("LD_LIBRARY_PATH"))
            .is_some_and(|path| path.contains("conda"));
    match (compat, conda) {
        (true, _) => Judgement::info(
            CUDA,
            format!("The loader picks cuda-compat's {path} over the driver's own library."),
        ),
        (false, true) => Judgement::info(
            CUDA,
            "LD_LIBRARY_PATH has Conda first: programs use its toolkit with this machine's driver library, and its other libraries instead of the system's.",
        ),
        (false, false) => Judgement::pass(
            CUDA,
            format!("The loader picks {path}, and no other library conflicts with it."),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{assert_says, machine, only, with_libraries};
    use crate::model::Outcome;

    fn library(path: &str, version: Option<&str>, found: Found) -> Library {
        Library {
            name: CUDA.to_owned(),
            path: path.to_owned(),
            version: version.map(str::to_owned),
            found,
            plugins: None,
            words: Fact::Known(Vec::new()),
        }
    }

    fn system(version: &str) -> Library {
        library("/usr/lib64/libcuda.so.1", Some(version), Found::Cache)
    }

    #[test]
    fn other_libraries_are_info() {
        let found_with = |libraries| only("sw.toolkit", &with_libraries(libraries));
        let compat =
            library("/usr/local/cuda/compat/libcuda.so.1", Some("590.10"), Found::LibraryPath);
        let found = found_with(vec![compat, system("580.159.04")]);
        assert_says(&found, "cuda-compat");
        let other = library("/opt/old/libcuda.so.1", Some("470.1"), Found::Cache);
        let found = found_with(vec![system("580.159.04"), other]);
        assert_eq!(found.outcome, Outcome::Info);
        assert_says(&found, "there is also /opt/old");
    }

    #[test]
    fn reports_conda() {
        let mut facts = with_libraries(vec![system("580.159.04")]);
        facts.environment =
            Fact::Known([("LD_LIBRARY_PATH".to_owned(), "(conda):/usr/lib64".to_owned())].into());
        assert_says(&only("sw.toolkit", &facts), "Conda");
    }

    #[test]
    fn missing_and_unknown_libraries() {
        assert_eq!(only("sw.toolkit", &machine()).outcome, Outcome::Pass);
        let mut facts = with_libraries(Vec::new());
        facts.cuda = Fact::Known(CudaOutcome::Absent {
            reason: "libcuda.so.1: cannot open shared object file".to_owned(),
        });
        assert_eq!(only("sw.toolkit", &facts).outcome, Outcome::Skip);
        facts.cuda = Fact::Unknown(Why::NotCovered);
        assert_eq!(only("sw.toolkit", &facts).outcome, Outcome::Unknown, "nobody tried to load it");
        let mut facts = with_libraries(vec![system("580.159.04")]);
        facts.driver.module_version = Fact::Unknown(Why::Denied);
        facts.driver.version_line = Fact::Unknown(Why::Denied);
        assert_eq!(only("sw.toolkit", &facts).outcome, Outcome::Unknown);
    }
}
