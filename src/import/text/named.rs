//! Devices in a line of a log of another program: a NIC beside its address, a list of RDMA devices, a device of Windows. Lists in settings
//! are not devices of the machine.

use super::nic_tools::mellanox;
use super::rdma_lists::is_device;
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, Ids};

/// The NIC of Mellanox at this address: by the number of the vendor, or by the name of the product.
pub fn adapter(line: &str) -> Option<Ids> {
    const NAMES: [&str; 3] = ["connectx", "bluefield", "mellanox"];
    const OTHERS: [&str; 8] = [
        "bridge",
        "switch",
        "dma controller",
        "class=0x06",
        "not found",
        "no such",
        "missing",
        "management",
    ];
    let lower = line.to_ascii_lowercase();
    let is_number = |at: usize| {
        let before = lower[..at].strip_suffix("0x").unwrap_or(&lower[..at]);
        let is_word = |c: char| c.is_ascii_alphanumeric();
        !before.ends_with(is_word) && !lower[at + 4..].starts_with(is_word)
    };
    let number = lower.match_indices("15b3").map(|(at, _)| at).find(|at| is_number(*at));
    if number.is_none() && !NAMES.iter().any(|name| lower.contains(name))
        || OTHERS.iter().any(|other| lower.contains(other))
    {
        return None;
    }
    let device = number.and_then(|at| {
        let rest = lower[at + 4..].strip_prefix(':')?;
        u16::from_str_radix(rest.trim_start_matches("0x").get(..4)?, 16).ok()
    });
    Some(mellanox(device))
}

/// True for a line `device found: 0000:1a:00.0  02  VENDOR  NAME` of device plugins, whose class is that of network controllers.
pub fn is_controller(line: &str, bdf: Bdf) -> bool {
    let rest = line.split_once("device found: ").map(|(_, rest)| rest);
    let mut words = rest.unwrap_or_default().split_ascii_whitespace();
    words.next().and_then(|word| word.parse().ok()) == Some(bdf) && words.next() == Some("02")
}

/// The RDMA devices of a list that a program found: `Found 2 devices: mlx5_0, mlx5_1`, `Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB`.
pub fn list(line: &str) -> Vec<&str> {
    const FOUND: [&str; 9] = [
        "found",
        "detected",
        "available",
        "discovered",
        "opened",
        "devices:",
        "devices [",
        "nics:",
        "hcas:",
    ];
    const SETTINGS: [&str; 8] = ["=", "--", "export ", "exclude", "not ", "no ", "-x ", "config"];
    const MOST: usize = 64;
    let is_mark = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let mut words =
        line.split(is_mark).filter(|word| !word.is_empty()).skip_while(|word| !is_device(word));
    let Some(first) = words.next() else { return Vec::new() };
    let start = first.as_ptr() as usize - line.as_ptr() as usize;
    let is_between = |word: &&str| {
        is_device(word) || word.parse::<u16>().is_ok() || matches!(*word, "IB" | "RoCE")
    };
    let behind = words.take_while(is_between).filter(|word| is_device(word));
    let mut names: Vec<&str> = [first].into_iter().chain(behind).take(MOST).collect();
    names.sort_unstable();
    names.dedup();
    let after = &line[start + first.len()..];
    let has_layer = after.starts_with(':') && matches!(after.get(2..5), Some("/IB" | "/Ro"));
    let before = line[..start].to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| before.contains(word));
    let is_list = names.len() > 1 && has(&FOUND) && !has(&SETTINGS);
    if is_list || has_layer && before.trim_end_matches(is_mark_of_index).ends_with("using") {
        names
    } else {
        Vec::new()
    }
}

fn is_mark_of_index(c: char) -> bool {
    c.is_ascii_digit() || "[] :".contains(c)
}

/// The identifier and the device number of a PCI device of NVIDIA in Windows: `PCI\VEN_10DE&DEV_2684&SUBSYS_…`.
pub fn pnp(line: &str) -> Option<(&str, u16)> {
    const OTHERS: [&str; 5] = ["Audio", "AUDIO", "USB", "Serial", "MEDIA"];
    const START: &str = "PCI\\VEN_10DE&DEV_";
    let at = line.find(START)?;
    let id = line[at..].split([' ', '\t', '"', '\'', ',', ';', '|', ')']).next()?;
    let device = u16::from_str_radix(id.get(START.len()..START.len() + 4)?, 16).ok()?;
    (!OTHERS.iter().any(|other| line.contains(other))).then_some((id, device))
}

/// The line above the names of video controllers, as wmic and PowerShell print it.
pub fn is_head_of_names(line: &str) -> bool {
    matches!(line, "Name" | "name" | "Caption" | "FriendlyName" | "VideoProcessor")
}

/// `GRES[gpu] Type:nvidia_h100_80gb_hbm3 Count:1 … File:/dev/nvidia0 …` of slurmd, but not an instance of MIG.
pub fn of_slurm(line: &str) -> Option<(usize, Option<&str>)> {
    let (_, rest) = line.split_once("GRES[gpu] Type:")?;
    let (_, node) = rest.split_once("File:/dev/nvidia")?;
    let number = node.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    let model = rest.split(' ').next().filter(|name| name.starts_with("nvidia_"));
    (!node.contains("nvidia-cap")).then_some((number, model))
}

/// The address in `nvidia-vgpud: pciId of gpu [0]: 0:17:0:0`, in hexadecimal.
pub fn of_vgpu(line: &str) -> Option<Bdf> {
    let (_, place) = line.split_once("pciId of gpu [")?.1.split_once("]: ")?;
    let mut numbers = place.trim().split(':').map(|number| u32::from_str_radix(number, 16).ok());
    let mut next = || numbers.next().flatten();
    let (domain, bus, device, function) = (next()?, next()?, next()?, next()?);
    format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}").parse().ok()
}

/// Some versions of PyTorch write "capacty".
pub const CAPACITY: &str = "total capac";

/// Lists of numbers of GPUs that a program uses.
pub const USED: [&str; 3] = [" gpus=[", " gpu_ids=[", " device_ids=["];

/// One more than the largest number in `Running DCGM diagnostic level=2 gpus=[0, 1]`, but not of the arguments of a function.
pub fn used(line: &str) -> Option<usize> {
    let (before, rest) = USED.iter().find_map(|key| line.split_once(key))?;
    let (list, _) = rest.split_once(']').filter(|_| !before.contains('('))?;
    let numbers: Option<Vec<usize>> = list.split(',').map(|n| n.trim().parse().ok()).collect();
    numbers?.into_iter().max().filter(|number| *number < MAX_GPUS).map(|number| number + 1)
}

/// The number of a GPU that CUDA's PyTorch ran out of memory on, or of a row of `nvidia-smi mig -lgi` and its siblings. Other builds
/// of PyTorch name HIP or XPU.
pub fn of_cuda(line: &str) -> Option<usize> {
    let Some(row) = line.strip_prefix('|') else {
        let (_, rest) = line.split_once("CUDA out of memory")?;
        return out_of_memory(rest).map(|(number, _)| number);
    };
    let (numbers, _) = row.split_once(" MIG ").filter(|(_, name)| is_profile(name))?;
    numbers.split_ascii_whitespace().next()?.parse().ok().filter(|number| *number < MAX_GPUS)
}

/// The number and the size of a GPU whose memory did not suffice: `GPU 0; 79.10 GiB total capacity`, or `GPU 0 has a total capacity of
/// 79.10 GiB`.
pub fn out_of_memory(line: &str) -> Option<(usize, &str)> {
    let (_, rest) = line.split_once("GPU ").filter(|(_, rest)| rest.contains(CAPACITY))?;
    let (number, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
    let number = number.parse().ok().filter(|number| *number < MAX_GPUS)?;
    let is_message = rest.starts_with("; ") || rest.starts_with(" has a total capac");
    let size = rest.split_ascii_whitespace().find(|word| word.parse::<f64>().is_ok())?;
    is_message.then_some((number, size))
}

/// True for what begins with `1g.10gb `, the name of a profile of MIG.
fn is_profile(text: &str) -> bool {
    let slices = text.trim_start().split_once("g.");
    let size =
        |rest: &str| rest.split(['g', '+']).next().is_some_and(|size| size.parse::<u16>().is_ok());
    slices.is_some_and(|(count, rest)| count.parse::<u8>().is_ok() && size(rest))
}

/// The number in a line `Device #0:` above its fields.
pub fn heading(line: &str) -> Option<usize> {
    if line.len() > 16 {
        return None;
    }
    let name = line.trim_end_matches(':').to_ascii_lowercase();
    let number = ["device", "gpu"].iter().find_map(|word| name.strip_prefix(word))?;
    number.trim_start_matches([' ', '#']).parse().ok().filter(|number| *number < MAX_GPUS)
}

/// True for a name that only products of NVIDIA have. One of a series need not have a number.
pub fn is_brand(name: &str) -> bool {
    super::summary::BRANDS.iter().any(|brand| name.starts_with(brand)) && name.len() < 64
}

/// A line of a program's source or of a patch.
pub fn is_code(line: &str) -> bool {
    const BEGINS: [&str; 9] =
        ["const ", "let ", "assert", "def ", "return ", "if ", "for ", "//", "+"];
    line.ends_with(';')
        || line.contains(" // ")
        || BEGINS.iter().any(|begin| line.starts_with(begin))
}

/// Ports of NVSwitches have names of NICs.
pub fn is_of_switch(line: &str) -> bool {
    line.contains("NVSwitch") || line.contains("LPF")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_devices() {
        for (line, expected) in [
            (
                "agent: found 3 devices: mlx5_0, mlx5_1, mlx5_10",
                vec!["mlx5_0", "mlx5_1", "mlx5_10"],
            ),
            ("Available NICs: ['rdmap16s27', 'rdmap32s27']", vec!["rdmap16s27", "rdmap32s27"]),
            (
                "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB [RO]; OOB eth0",
                vec!["mlx5_0", "mlx5_1"],
            ),
            ("NCCL_IB_HCA=mlx5_0,mlx5_1", vec![]),
            ("found NCCL_IB_HCA=mlx5_0,mlx5_1", vec![]),
            ("run --devices mlx5_0,mlx5_1", vec![]),
            ("devices mlx5_0 mlx5_1 not found", vec![]),
            ("found mlx5_0", vec![]),
        ] {
            assert_eq!(list(line), expected, "{line}");
        }
    }

    #[test]
    fn adapters_by_number_and_name() {
        for (line, expected) in [
            ("[identifier: 0000:1a:00.2, vendor: 15b3, device: 101a]", Some(None)),
            ("0000:1a:00.0 15b3:1021", Some(Some(0x1021))),
            (
                "device found: 0000:1a:00.0  02  Mellanox Technolo...  MT2910 Family [ConnectX-7]",
                Some(None),
            ),
            ("0000:1a:00.0 a15b3", None),
            ("0000:1a:00.0: Mellanox PCI bridge", None),
        ] {
            assert_eq!(adapter(line).map(|ids| ids.device), expected, "{line}");
        }
        let line = "x: device found: 0000:1a:00.0   02   Intel Corporation   E810";
        let bdf = "0000:1a:00.0".parse().expect("an address");
        assert!(is_controller(line, bdf) && !is_controller(&line.replace(" 02 ", " 03 "), bdf));
    }

    #[test]
    fn devices_of_windows() {
        let line = "OK  Display  NVIDIA GeForce RTX 4090  PCI\\VEN_10DE&DEV_2684&SUBSYS_1&REV_A1\\4&2&0&19";
        assert_eq!(pnp(line), Some(("PCI\\VEN_10DE&DEV_2684&SUBSYS_1&REV_A1\\4&2&0&19", 0x2684)));
        assert_eq!(pnp("OK  MEDIA  NVIDIA Audio  PCI\\VEN_10DE&DEV_22BA&SUBSYS_1"), None);
    }

    #[test]
    fn numbers_of_gpus_in_messages() {
        for (line, expected) in [
            (
                "E: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 11 has a total capacity of 79.10 GiB",
                Some(11),
            ),
            (
                "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity; 14 GiB",
                Some(0),
            ),
            (
                "HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 64 GiB",
                None,
            ),
            ("CUDA out of memory on GPU 0", None),
            ("|   1  MIG 1g.10gb         19        9          2:1     |", Some(1)),
            ("|   2      7       MIG 1g.5gb+me       20         0          0:1     |", Some(2)),
            ("|   1  MIG devices            |", None),
        ] {
            assert_eq!(of_cuda(line), expected, "{line}");
        }
    }
}
