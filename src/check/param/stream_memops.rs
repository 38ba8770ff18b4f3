//! param.stream-memops: may a CUDA stream wait for memory and write it?

use super::{PARAMS, registry_keys as keys};
use crate::check::{Ctx, Judgement, version};
use crate::model::{Fact, Why};

const OPTION: &str = "EnableStreamMemOPs";

/// From CUDA 11.7 (driver 515) on the second form of the calls is always on. From r387 to there, a parameter decides.
pub fn stream_memops(ctx: &Ctx<'_>) -> Vec<Judgement> {
    vec![judge(ctx)]
}

fn judge(ctx: &Ctx<'_>) -> Judgement {
    let driver = match version::driver(ctx.facts) {
        Fact::Known(None) => return Judgement::skip("driver", "The NVIDIA driver is not loaded."),
        Fact::Known(Some(version)) => Fact::Known(version),
        Fact::Unknown(why) => Fact::Unknown(why),
    };
    let cuda = ctx.facts.nvml().and_then(|nvml| nvml.cuda_version.known().copied());
    let branch = driver.known().and_then(|version| version::branch(version));
    let parameter = parameter(ctx);
    let said = match &parameter {
        Fact::Known(on) => format!("{}", u8::from(*on)),
        Fact::Unknown(why) => why.phrase().to_owned(),
    };
    let judgement = match (cuda, branch) {
        (Some(11_070..), _) | (_, Some(515..)) => Judgement::pass("driver", modern(&parameter)),
        (None, None) => {
            return Judgement::unknown(
                "driver",
                driver.why().unwrap_or(Why::Broken),
                "/sys/module/nvidia/version",
            );
        }
        (_, Some(..387)) => Judgement::pass(
            "driver",
            "Drivers before r387 need no parameter for stream memory operations.",
        ),
        _ => match parameter {
            Fact::Known(true) => Judgement::pass("driver", "EnableStreamMemOPs=1: stream memory operations are on."),
            Fact::Known(false) => Judgement::broken(
                "driver",
                "Stream memory operations are off: this driver is older than CUDA 11.7 and EnableStreamMemOPs is 0.",
            )
            .fix(
                "stream-memops",
                "in a file of /etc/modprobe.d: options nvidia NVreg_EnableStreamMemOPs=1, then rebuild the initramfs \
                 and reload the driver; or a driver of 515 or later",
            ),
            Fact::Unknown(why) => return Judgement::unknown("driver", why, PARAMS),
        },
    };
    let judgement = match driver.known() {
        Some(version) => judgement.evidence("/sys/module/nvidia/version", version),
        None => judgement,
    };
    let judgement = match cuda {
        Some(cuda) => judgement.evidence("nvmlSystemGetCudaDriverVersion", cuda.to_string()),
        None => judgement,
    };
    judgement.evidence(format!("{PARAMS}: {OPTION}"), said)
}

fn modern(parameter: &Fact<bool>) -> &'static str {
    match parameter {
        Fact::Known(false) => {
            "Stream memory operations (v2) are on by default. Programs built on the first form of the calls still need \
             NVreg_EnableStreamMemOPs=1, which is not set."
        }
        _ => "Stream memory operations (v2) are on by default.",
    }
}

/// The parameter, or the option of that name inside `RegistryDwords`, which overrides it.
fn parameter(ctx: &Ctx<'_>) -> Fact<bool> {
    ctx.facts.driver.params.as_ref().and_then(|params| {
        let params = match params {
            Some(params) => params,
            None => return Fact::Unknown(Why::NotCovered),
        };
        let inside = params
            .get("RegistryDwords")
            .and_then(|dwords| keys::option(dwords, OPTION));
        match (inside, params.get(OPTION)) {
            (Some(value), _) => Fact::Known(value != 0),
            (None, Some(value)) => Fact::Known(value != "0"),
            (None, None) => Fact::Unknown(Why::NotCovered),
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{Edit, findings, machine, only};
    use crate::model::{Fact, Facts, Outcome, Why};

    /// A machine with this driver and no word from NVML.
    fn driver(version: &str) -> Facts {
        let mut facts = machine();
        facts.nvml = Fact::Unknown(Why::NotCovered);
        facts.driver.module_version = Fact::Known(Some(version.to_owned()));
        facts
    }

    #[test]
    fn new_drivers_have_it_and_say_what_old_programs_need() {
        let found = only("param.stream-memops", &machine());
        assert_eq!(found.outcome, Outcome::Pass);
        assert!(found.message.contains("still need NVreg_EnableStreamMemOPs=1"));
        let mut facts = driver("515.43.04");
        assert_eq!(only("param.stream-memops", &facts).outcome, Outcome::Pass);
        facts.param("EnableStreamMemOPs", "1");
        assert!(!only("param.stream-memops", &facts).message.contains("still need"));
    }

    #[test]
    fn older_ones_need_the_parameter() {
        let mut facts = driver("470.82.01");
        let found = only("param.stream-memops", &facts);
        assert_eq!(
            (found.outcome, found.fix.expect("a fix").id.as_str()),
            (Outcome::Warn, "stream-memops")
        );
        assert_eq!(
            findings("param.stream-memops", &facts, &["async"])[0].outcome,
            Outcome::Fail
        );
        facts.param("RegistryDwords", "enablestreammemops=1");
        assert_eq!(
            only("param.stream-memops", &facts).outcome,
            Outcome::Warn,
            "the name has its case"
        );
        facts.param("RegistryDwords", "EnableStreamMemOPs=1");
        assert_eq!(only("param.stream-memops", &facts).outcome, Outcome::Pass);
        facts.param("RegistryDwords", "EnableStreamMemOPs=0");
        facts.param("EnableStreamMemOPs", "1");
        assert_eq!(
            only("param.stream-memops", &facts).outcome,
            Outcome::Warn,
            "the string overrides"
        );
        assert_eq!(only("param.stream-memops", &driver("384.81")).outcome, Outcome::Pass);
    }

    #[test]
    fn unknown_versions_and_parameters_are_no_pass() {
        let mut facts = driver("470.82.01");
        facts.driver.params = Fact::Unknown(Why::Denied);
        assert_eq!(only("param.stream-memops", &facts).outcome, Outcome::Unknown);
        assert_eq!(only("param.stream-memops", &Facts::default()).outcome, Outcome::Unknown);
        facts.driver.module_version = Fact::Known(None);
        facts.driver.version_line = Fact::Known(None);
        assert_eq!(only("param.stream-memops", &facts).outcome, Outcome::Skip);
    }
}
