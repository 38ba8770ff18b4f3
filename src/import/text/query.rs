//! Parts of `nvidia-smi -q` without its head, as of grep.

use crate::model::Bdf;

/// The address in `Bus Id : 00000000:17:00.0`, or in the line that begins a GPU, of `nvidia-smi -q` without its head.
fn of_part(line: &str) -> Option<Bdf> {
    let address = match line.split_once(" : ") {
        Some((key, address)) if key.trim_end() == "Bus Id" => address,
        Some(_) => return None,
        // The form of `nvidia-smi -q`: other programs print four digits.
        None => line.strip_prefix("GPU ").filter(|address| address.len() == 16)?,
    };
    address.trim().parse().ok()
}

/// True for a line of `nvidia-smi -q` that names a GPU.
pub fn is_part(line: &str) -> bool {
    of_part(line).is_some()
}

/// Output of `nvidia-smi -q` that begins with a GPU or with its address, as of grep, with a head that says nothing.
pub fn whole(text: &str) -> String {
    let mut out = "NVSMI LOG\n\n".to_owned();
    if text.starts_with("GPU ") {
        return out + text;
    }
    let indent = text.lines().next().map_or(0, |line| line.len() - line.trim_start().len());
    let by = if indent == 0 { 8 } else { 4 };
    for line in text.lines() {
        if let Some(bdf) = of_part(line.trim()) {
            out.push_str(&format!("GPU {bdf}\n    PCI\n"));
        }
        out.push_str(&format!("{:by$}{line}\n", ""));
    }
    out
}
