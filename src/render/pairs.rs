//! The NICs for each GPU, with settings for NCCL, UCX, CUDA and numactl: a line for each GPU, one for the machine, and a script that
//! chooses by Slurm's local rank.

use std::io::{self, Write};

use super::View;
use super::nics::{Nics, names};
use super::text::{Tone, printable, wrap};
use crate::model::{Fact, Kind, Match, Row};
use crate::output::shell_word;

/// Name of the script in the instructions.
const SCRIPT: &str = "gpu-rank.sh";

pub fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let nics = Nics::new(view);
    let rows = &view.topology.rows;
    let gpus: Vec<&Match> =
        view.topology.matches.iter().filter(|m| rows[m.row].kind == Kind::Gpu).collect();
    if gpus.is_empty() {
        return out.write_all(b"# no GPU found\n");
    }
    let has_nics = gpus.iter().any(|m| !used(view, m).is_empty());
    if has_nics {
        let text = "In NCCL_IB_HCA==mlx5_1:1 the value begins with '=': NCCL then compares whole names. Without it mlx5_1 \
                    also selects mlx5_10. The number after the colon is the port.";
        out.write_all(comment(view, text).as_bytes())?;
    }
    if has_nics && view.facts.platform.is_guest() {
        let text = "This is a virtual machine: its PCI tree is the hypervisor's. Which NIC is nearest on the host is unknown; gdr probe rdma \
                    --all measures each.";
        out.write_all(comment(view, text).as_bytes())?;
    }
    for m in &gpus {
        out.write_all(paragraph(view, &nics, m).as_bytes())?;
    }
    if has_nics {
        out.write_all(machine(view, &nics, &gpus).as_bytes())?;
    }
    out.write_all(script(view, &nics, &gpus).as_bytes())
}

/// The NICs to give NCCL for a GPU, as far as their names are known.
fn used<'a>(view: &View<'a>, m: &Match) -> Vec<&'a Row> {
    let rows = &view.topology.rows;
    let nics = m.nccl.iter().map(|at| &rows[*at]);
    nics.filter(|nic| nic.named).collect()
}

fn comment(view: &View<'_>, text: &str) -> String {
    format!("# {}\n", wrap(&printable(text), view.style.width, 2, "# "))
}

fn paragraph(view: &View<'_>, nics: &Nics<'_>, m: &Match) -> String {
    let rows = &view.topology.rows;
    let gpu = &rows[m.row];
    let verdict = view.style.paint(Tone::of_verdict(m.verdict), m.verdict.phrase());
    let start = gpu.name.len() + m.verdict.phrase().len() + 6;
    let reason = wrap(&printable(&m.reason), view.style.width, start, "# ");
    let mut text = if view.has_no_nic() {
        comment(view, &format!("{}: {}", gpu.name, m.reason))
    } else {
        format!("# {}: {verdict}: {reason}\n", gpu.name)
    };
    let others = m.best.iter().filter(|at| !m.nccl.contains(at));
    let labels: Vec<&str> = others.map(|at| rows[*at].label.as_str()).collect();
    if m.nccl.len() > 1 {
        let names = names(view, m.nccl.iter().copied());
        text.push_str(&comment(view, &format!("With these variables NCCL uses {names} together.")));
    }
    if !labels.is_empty() {
        let text_of = format!("Equally near: {}.", labels.join(" "));
        text.push_str(&comment(view, &text_of));
    }
    if let Some(nic) = m.pick.map(|pick| &rows[pick]).filter(|nic| !nic.named) {
        text.push_str(&comment(
            view,
            &format!(
                "this source does not contain the name of the RDMA device of {} ({label}): see \
                 /sys/bus/pci/devices/{label}/infiniband",
                nic.name,
                label = nic.label
            ),
        ));
    }
    text.push_str(&settings(view, nics, m));
    text.push_str(" COMMAND\n");
    text
}

/// What to put before the command of a process with one GPU; unknown values are left out.
fn settings(view: &View<'_>, nics: &Nics<'_>, m: &Match) -> String {
    let gpu = &view.topology.rows[m.row];
    let mut parts = vec!["env".to_owned()];
    match &gpu.uuid {
        Some(uuid) => parts.push(format!("CUDA_VISIBLE_DEVICES={}", shell_word(uuid))),
        None => {
            // By default, CUDA orders devices by speed.
            parts.push("CUDA_DEVICE_ORDER=PCI_BUS_ID".to_owned());
            parts.push(format!("CUDA_VISIBLE_DEVICES={}", gpu.name.trim_start_matches("GPU")));
        }
    }
    parts.extend(ports(nics, &used(view, m)).map(|(nccl, ucx)| format!("{nccl} {ucx}")));
    if let Fact::Known(nodes) = &gpu.nodes
        && !nodes.is_empty()
    {
        parts.push(format!("numactl --cpunodebind={nodes} --membind={nodes}"));
    }
    parts.join(" ")
}

/// NCCL's and UCX's variables for these NICs; none without a NIC.
fn ports(nics: &Nics<'_>, used: &[&Row]) -> Option<(String, String)> {
    let ports: Vec<String> = used
        .iter()
        .flat_map(|nic| {
            let numbers = nics.port_numbers(nic).into_iter();
            numbers.map(|number| format!("{}:{number}", nic.label))
        })
        .collect();
    let list = ports.join(",");
    let nccl = shell_word(&format!("={list}"));
    (!ports.is_empty()).then(|| {
        let ucx = format!("UCX_NET_DEVICES={}", shell_word(&list));
        (format!("NCCL_IB_HCA={nccl}"), ucx)
    })
}

/// One line for a program that uses all GPUs.
fn machine(view: &View<'_>, nics: &Nics<'_>, gpus: &[&Match]) -> String {
    let mut rows: Vec<usize> = gpus.iter().flat_map(|m| m.nccl.iter().copied()).collect();
    rows.sort_unstable();
    rows.dedup();
    let used: Vec<&Row> = rows.iter().map(|at| &view.topology.rows[*at]).collect();
    let used: Vec<&Row> = used.into_iter().filter(|nic| nic.named).collect();
    let text = comment(
        view,
        "The whole machine, for a program that uses all GPUs: NCCL and UCX choose the nearest of these NICs for each GPU. Put in place of \
         INTERFACE the network interface that reaches the other machines ('ip route get ADDRESS' names it); NCCL starts over it.",
    );
    match ports(nics, &used) {
        Some((nccl, ucx)) => {
            format!("{text}export {nccl} NCCL_SOCKET_IFNAME=INTERFACE {ucx}\n")
        }
        None => String::new(),
    }
}

/// A script for one process per GPU.
fn script(view: &View<'_>, nics: &Nics<'_>, gpus: &[&Match]) -> String {
    let text = comment(
        view,
        &format!(
            "One process per GPU under Slurm: save the lines from 'case' to 'esac' as {SCRIPT}, then srun --ntasks-per-node={} sh {SCRIPT} \
             COMMAND",
            gpus.len()
        ),
    );
    let mut text = text + "case \"$SLURM_LOCALID\" in\n";
    for (rank, m) in gpus.iter().enumerate() {
        let settings = settings(view, nics, m);
        text.push_str(&format!("{rank}) exec {settings} \"$@\" ;;\n"));
    }
    text + "*) echo \"no GPU for rank $SLURM_LOCALID\" >&2; exit 1 ;;\nesac\n"
}
