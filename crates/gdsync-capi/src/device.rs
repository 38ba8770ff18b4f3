//! What the streams of the current context's GPU can do, and what the environment leaves of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use engine::descriptor::Capabilities;
use gpu::foreign::{self, StreamCapabilities};
use process::PerProcess;

use crate::call_error::CallError;
use crate::environment::environment;
use crate::log::{self, Level};

/// By CUDA's number of the device. They do not change while the process lives.
static KNOWN: PerProcess<Mutex<BTreeMap<i32, StreamCapabilities>>> =
    PerProcess::new(Mutex::default);

/// Of the calling thread's context.
pub(crate) fn capabilities() -> Result<Capabilities, CallError> {
    let device = foreign::current_device()
        .map_err(CallError::cuda("tell the GPU of the current context"))?;
    let mut known = KNOWN.get().lock().unwrap_or_else(PoisonError::into_inner);
    let has = match known.get(&device) {
        Some(has) => *has,
        None => {
            let has = foreign::stream_capabilities(device)
                .map_err(CallError::cuda("ask the GPU what it can do"))?;
            log::say(
                Level::Debug,
                "capabilities",
                format_args!("device {device}: {has:?}"),
            );
            if environment().no_write_memory {
                let words = "GDS_DISABLE_WRITEMEMORY is set: memory is written in words anyway";
                log::say(Level::Debug, "capabilities", format_args!("{words}"));
            }
            known.insert(device, has);
            has
        }
    };
    let set = environment();
    Ok(Capabilities {
        words_of_64_bits: has.words_of_64_bits && !set.no_write64,
        nor: has.nor && !set.no_wait_nor,
        flush: has.flush && !set.no_remote_flush,
    })
}
