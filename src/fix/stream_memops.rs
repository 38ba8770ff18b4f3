//! stream-memops: a driver older than CUDA 11.7 lets streams wait for memory and write it (`NVreg_EnableStreamMemOPs=1`).

use super::draft::{Draft, Fix, Need};
use super::drop_in::{self, Change};
use super::roads::{DWORDS, Roads, change_word};
use crate::check::ground::registry_keys as keys;
use crate::kmod::unsigned;

/// The fix.
pub const FIX: Fix = Fix {
    id: "stream-memops",
    about: "CUDA streams may wait for memory and write it: NVreg_EnableStreamMemOPs=1.",
    draft,
};

const OPTION: &str = "EnableStreamMemOPs";
const PARAMETER: &str = "NVreg_EnableStreamMemOPs";

fn draft(need: &Need<'_>) -> Draft {
    let ctx = need.ctx;
    let roads = match Roads::of(ctx) {
        Ok(roads) => roads,
        Err(why) => return Draft::refused(why),
    };
    // The option's name among the registry keys overrides the parameter.
    let shuts = |text: &str| keys::option(text, OPTION) == Some(0);
    let opens = |text: &str| keys::option(text, OPTION).is_some_and(|value| value != 0);
    let is_on = |text: &str| unsigned(text).is_some_and(|value| value != 0);
    let mut changes: Vec<(String, Change)> = Vec::new();
    if !roads.all(DWORDS, |text| !shuts(text)) {
        if let Some((text, from)) = roads.on_command_line(DWORDS).filter(|(text, _)| shuts(text)) {
            return Draft::refused(change_word(from, DWORDS, &keys::merged(&text, OPTION, 1)));
        }
        let base = roads.dwords();
        changes.push((
            DWORDS.to_owned(),
            Box::new(move |present| keys::merged(present.unwrap_or(&base), OPTION, 1)),
        ));
    }
    if !roads.all(PARAMETER, is_on) && !roads.all(DWORDS, opens) {
        if let Some((_, from)) = roads.on_command_line(PARAMETER).filter(|(text, _)| !is_on(text)) {
            return Draft::refused(change_word(from, PARAMETER, "1"));
        }
        changes.push((PARAMETER.to_owned(), Box::new(|_| "1".to_owned())));
    }
    drop_in::set(need, Draft::default(), roads.names, &format!("{OPTION}=1"), changes)
}
