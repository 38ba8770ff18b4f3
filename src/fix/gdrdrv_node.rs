//! gdrdrv-node: makes gdrcopy's device node, now and whenever gdrdrv is loaded.
//!
//! gdrdrv registers a major number but no device, so udev sees only the module. A wrong node is
//! replaced; an undo restores it.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest, NoChange};
use crate::check::ground;
use crate::model::{DeviceNode, Fact, NodeState, Operation, Why};

pub const FIX: Fix = Fix {
    id: "gdrdrv-node",
    about: "gdrcopy's device node /dev/gdrdrv exists, has the module's number and is open to every user, also after a reboot.",
    checks: &["gdrdrv.node"],
    requires: &[],
    desired,
};

const NODE: &str = DeviceNode::PATH;
const RULE: &str = "/etc/udev/rules.d/71-gdr-gdrdrv.rules";

/// Makes the node when the module is loaded. Before Linux 5.11 the event precedes the registration of
/// the number, hence the loop. udev replaces words such as `$major` even after its escape `$$`, so no
/// shell variable may begin like one of them (udev(7), substitutions).
const RULE_TEXT: &str = "# By 'gdr fix gdrdrv-node': gdrdrv creates no device node.\n\
    ACTION==\"add\", SUBSYSTEM==\"module\", KERNEL==\"gdrdrv\", RUN+=\"/bin/sh -c '\
    for try in 1 2 3 4 5 6 7 8 9 10; do \
    while read -r first second; do \
    if [ x$$second = xgdrdrv ]; then /bin/rm -f /dev/gdrdrv; exec /bin/mknod -m 0666 /dev/gdrdrv c $$first 0; fi; \
    done < /proc/devices; \
    /bin/sleep 1; \
    done'\"\n";

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ground::in_container(ctx) {
        return DesiredState::refused(format!(
            "This is a container: start it with --device={NODE}."
        ));
    }
    let majors = match &ctx.facts.kernel.char_devices {
        Fact::Known(devices) => devices.get("gdrdrv"),
        Fact::Unknown(why) => {
            return DesiredState::none(NoChange::unread("/proc/devices", *why));
        }
    };
    let Some(major) = majors.and_then(|majors| majors.first()) else {
        return DesiredState::refused(
            "gdrdrv is not loaded. Install gdrcopy's kernel module (package gdrdrv-dkms), run 'modprobe gdrdrv', and try again.",
        );
    };
    let state = match ctx.facts.gdrdrv.node.as_ref().map(|node| &node.state) {
        Some(Fact::Known(state)) => state.as_ref(),
        Some(Fact::Unknown(why)) => {
            return DesiredState::none(NoChange::unread(NODE, *why));
        }
        None => return DesiredState::none(NoChange::unread(NODE, Why::NotCovered)),
    };
    let mut desired = DesiredState::default();
    desired.change(
        "Make the node whenever gdrdrv is loaded.",
        ChangeTarget::File {
            path: RULE.to_owned(),
            mode: 0o644,
            content: Box::new(|_| Ok(RULE_TEXT.to_owned())),
        },
    );
    // udevd checks for new rules only every three seconds (systemd's udevd.c).
    desired.change("Reload udev's rules.", ChangeTarget::Run(Operation::ReloadUdevRules));
    match state {
        None => make(&mut desired, *major),
        Some(state) if !state.character => {
            return DesiredState::refused(format!(
                "{NODE} exists but is not a device node, and gdr removes nothing that it cannot restore. Remove it by hand, and \
                 try again."
            ));
        }
        Some(state) if state.major != *major || state.minor != 0 => {
            replace(&mut desired, state);
            make(&mut desired, *major);
        }
        Some(state) if state.mode & 0o666 != 0o666 => {
            let old = state.mode & 0o7777;
            desired.change(
                format!("Open {NODE} to every user (its mode is {old:04o})."),
                ChangeTarget::Run(Operation::SetNodeMode { old, new: 0o666 }),
            );
        }
        Some(_) => {}
    }
    desired.warnings.push(
        "Every user may open the node, as in gdrcopy's own installation. What loads gdrdrv at boot (its package's service, \
         modules-load.d) is not changed."
            .to_owned(),
    );
    desired
}

fn make(desired: &mut DesiredState, major: u32) {
    let node = DeviceNode { major, minor: 0, mode: 0o666 };
    desired.change(
        format!("Make {NODE} with gdrdrv's major number {major}."),
        ChangeTarget::Run(Operation::MakeNode(node)),
    );
}

fn replace(desired: &mut DesiredState, state: &NodeState) {
    let node = DeviceNode { major: state.major, minor: state.minor, mode: state.mode & 0o7777 };
    desired.change(
        format!(
            "Remove {NODE}, which has the wrong device number ({}:{}).",
            node.major, node.minor
        ),
        ChangeTarget::Run(Operation::RemoveNode(node)),
    );
}
