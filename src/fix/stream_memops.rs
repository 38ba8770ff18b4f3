//! stream-memops: enables stream memory operations on drivers before CUDA 11.7 (`NVreg_EnableStreamMemOPs=1`).

use super::desired::{DesiredState, Fix, FixRequest};
use super::driver_loads::{DWORDS, DriverLoads, change_word};
use super::drop_in::{self, Change};
use crate::check::ground::registry_keys as keys;
use crate::kmod::unsigned;

pub const FIX: Fix = Fix {
    id: "stream-memops",
    about: "CUDA streams can wait for memory and write it: NVreg_EnableStreamMemOPs=1.",
    checks: &["param.stream-memops"],
    requires: &[],
    desired,
};

const OPTION: &str = "EnableStreamMemOPs";
const PARAMETER: &str = "NVreg_EnableStreamMemOPs";

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    let driver_loads = match DriverLoads::of(ctx) {
        Ok(driver_loads) => driver_loads,
        Err(why) => return DesiredState::none(why),
    };
    // The registry key overrides the parameter.
    let shuts = |text: &str| keys::option(text, OPTION) == Some(0);
    let opens = |text: &str| keys::option(text, OPTION).is_some_and(|value| value != 0);
    let is_on = |text: &str| unsigned(text).is_some_and(|value| value != 0);
    let mut changes: Vec<(String, Change)> = Vec::new();
    if !driver_loads.all(DWORDS, |text| !shuts(text)) {
        if let Some((text, from)) =
            driver_loads.on_command_line(DWORDS).filter(|(text, _)| shuts(text))
        {
            return DesiredState::refused(change_word(
                from,
                DWORDS,
                &keys::merged(&text, OPTION, 1),
            ));
        }
        let base = driver_loads.dwords();
        changes.push((
            DWORDS.to_owned(),
            Box::new(move |present| keys::merged(present.unwrap_or(&base), OPTION, 1)),
        ));
    }
    if !driver_loads.all(PARAMETER, is_on) && !driver_loads.all(DWORDS, opens) {
        if let Some((_, from)) =
            driver_loads.on_command_line(PARAMETER).filter(|(text, _)| !is_on(text))
        {
            return DesiredState::refused(change_word(from, PARAMETER, "1"));
        }
        changes.push((PARAMETER.to_owned(), Box::new(|_| "1".to_owned())));
    }
    drop_in::set(
        request,
        DesiredState::default(),
        driver_loads.names,
        &format!("{OPTION}=1"),
        changes,
    )
}
