//! The device nodes of GPUs: without its node, NVML and CUDA do not show a GPU.

use crate::check::{Ctx, Judgement};
use crate::model::{ActionClass, Bdf, Fact};

/// Major number of NVIDIA's character devices (`NV_MAJOR_DEVICE_NUMBER`, kernel-open/common/inc/nv-chardev-numbers.h).
const MAJOR: u32 = 195;

/// Where the action is written.
const SOURCE: &str = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/";

/// What is wrong with a node, and with which.
pub struct Problem {
    pub path: String,
    what: &'static str,
}

impl Problem {
    /// As in "/dev/nvidia3 does not exist".
    pub fn text(&self) -> String {
        format!("{} {}", self.path, self.what)
    }

    pub fn advise(&self, judgement: Judgement) -> Judgement {
        let action = ActionClass::Configure.running(SOURCE);
        judgement.evidence(&self.path, self.what).action(action).advice(
            "Create a missing node with nvidia-modprobe -c MINOR. A container or a job has only the GPUs that it was given; the \
             owner and mode of a node, and the control group, say who may open it.",
        )
    }
}

/// The problem of this GPU's node; none if it can be opened, or if that is not known.
pub fn problem(ctx: &Ctx<'_>, gpu: Bdf) -> Option<Problem> {
    let minor = ctx.facts.driver.gpus.known()?.get(&gpu)?.minor?;
    let path = format!("/dev/nvidia{minor}");
    let mut nodes = ctx.facts.nvidia_nodes.known()?.iter();
    let what = match nodes.find(|node| node.path == path).map(|node| &node.state) {
        None | Some(Fact::Known(None)) => "does not exist",
        Some(Fact::Known(Some(state)))
            if !state.character || (state.major, state.minor) != (MAJOR, minor) =>
        {
            "is another device or file"
        }
        Some(Fact::Known(Some(state))) if state.usable == Fact::Known(false) => {
            "may not be opened by this process"
        }
        Some(_) => return None,
    };
    Some(Problem { path, what })
}
