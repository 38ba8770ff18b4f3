//! gdrdrv-node: the node of gdrcopy's kernel module, now and whenever the module is loaded.
//!
//! gdrdrv registers its major number and makes no device of its own, so that udev hears of nothing but the module. A
//! node that is in the way is replaced; an undo puts it back as it was.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use crate::check::ground;
use crate::model::{DeviceNode, Fact, NodeState, Operation};

pub const FIX: Fix = Fix {
    id: "gdrdrv-node",
    about: "gdrcopy's node /dev/gdrdrv is there, belongs to the loaded module, and opens for every user, also after a reboot.",
    desired,
};

const NODE: &str = DeviceNode::PATH;
const RULE: &str = "/etc/udev/rules.d/71-gdr-gdrdrv.rules";

/// What makes the node when the module comes. Before Linux 5.11 the event comes before the module has its number, so it is
/// waited for. udev puts values in the place of words such as `$major` and `$name` even behind its escape `$$`: no
/// variable's name may begin like one of its words (udev(7), substitutions).
const RULE_TEXT: &str = "# By 'gdr fix gdrdrv-node': gdrdrv makes no node of its own.\n\
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
            "This is a container: its nodes are what it was given. Start it with --device={NODE}."
        ));
    }
    let majors = match &ctx.facts.kernel.char_devices {
        Fact::Known(devices) => devices.get("gdrdrv"),
        Fact::Unknown(why) => {
            return DesiredState::refused(format!("/proc/devices: {}.", why.phrase()));
        }
    };
    let Some(major) = majors.and_then(|majors| majors.first()) else {
        return DesiredState::refused(
            "gdrdrv is not loaded: a node would open nothing. Install gdrcopy's kernel module (package gdrdrv-dkms), \
             'modprobe gdrdrv', and try again.",
        );
    };
    let state = match ctx.facts.gdrdrv.node.as_ref().map(|node| &node.state) {
        Some(Fact::Known(state)) => state.as_ref(),
        Some(Fact::Unknown(why)) => {
            return DesiredState::refused(format!("{NODE}: {}.", why.phrase()));
        }
        None => return DesiredState::refused(format!("{NODE} was not looked at.")),
    };
    let mut desired = DesiredState::default();
    desired.desired_change(
        "Make the node whenever gdrdrv is loaded.",
        ChangeTarget::File {
            path: RULE.to_owned(),
            mode: 0o644,
            content: Box::new(|_| Ok(RULE_TEXT.to_owned())),
        },
    );
    // By itself udevd looks for new rules every three seconds at most (systemd's udevd.c).
    desired.desired_change(
        "udevd reads its rules again.",
        ChangeTarget::Run(Operation::ReloadUdevRules),
    );
    match state {
        None => make(&mut desired, *major),
        Some(state) if !state.character => {
            return DesiredState::refused(format!(
                "{NODE} is there and is no device node: gdr takes nothing away that it could not put back. Look what it is, \
                 remove it, and try again."
            ));
        }
        Some(state) if state.major != *major || state.minor != 0 => {
            replace(&mut desired, state);
            make(&mut desired, *major);
        }
        Some(state) if state.mode & 0o666 != 0o666 => {
            let old = state.mode & 0o7777;
            desired.desired_change(
                format!("Open {NODE} to every user (its mode is {old:04o})."),
                ChangeTarget::Run(Operation::SetNodeMode { old, new: 0o666 }),
            );
        }
        Some(_) => {}
    }
    desired.warnings.push(
        "Every user may open the node, as gdrcopy's own installation has it. What loads gdrdrv at boot (its package's \
         service, modules-load.d) stays as it is."
            .to_owned(),
    );
    desired
}

fn make(desired: &mut DesiredState, major: u32) {
    let node = DeviceNode {
        major,
        minor: 0,
        mode: 0o666,
    };
    desired.desired_change(
        format!("Make {NODE} with the number that /proc/devices has for gdrdrv, {major}."),
        ChangeTarget::Run(Operation::MakeNode(node)),
    );
}

/// Removes a node with another number.
fn replace(desired: &mut DesiredState, state: &NodeState) {
    let node = DeviceNode {
        major: state.major,
        minor: state.minor,
        mode: state.mode & 0o7777,
    };
    desired.desired_change(
        format!(
            "Remove the {NODE} that opens something else ({}:{}).",
            node.major, node.minor
        ),
        ChangeTarget::Run(Operation::RemoveNode(node)),
    );
}
