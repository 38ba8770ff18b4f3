//! Variables of MPI and UCX that turn GPU memory or a fast transport off. Pure; [`super::environment`] judges them.
//!
//! UCX_TLS: <https://openucx.readthedocs.io/en/master/faq.html>. Open MPI: ompi/mca/pml/ob1 (4.1: only the BTL smcuda moves GPU memory
//! on one host), opal/mca/base (opal_cuda_support). MVAPICH2-GDR: its user guide. MPICH: MPIR_CVAR_ENABLE_GPU
//! (src/mpi/init/mpir_init.c); Cray MPICH: MPICH_GPU_SUPPORT_ENABLED; Intel MPI: I_MPI_OFFLOAD.

/// GPU transports of UCX, and what is lost without each.
const CUDA: [(&str, &str); 3] = [
    ("cuda_copy", "UCX does not support GPU memory"),
    ("cuda_ipc", "GPU memory on one host goes through host memory"),
    ("gdr_copy", "small messages of GPU memory take a copy of the driver"),
];

/// What a list of UCX transports turns off, for a machine with so many GPUs.
pub fn ucx_tls(value: &str, gpus: usize) -> Option<String> {
    if gpus == 0 || value == "(set)" {
        return None;
    }
    let (without, names) = list(value);
    let has = |name: &str| {
        // `cuda` is an alias of all three; `gdr_copy` and `cuda_ipc` may be named alone.
        let named = names.iter().any(|known| {
            let known = known.trim_start_matches('\\');
            known == name || known == "cuda" || (!without && known == "all")
        });
        named != without
    };
    let missing: Vec<(&str, &str)> = CUDA
        .into_iter()
        // One GPU has no other one's memory to map.
        .filter(|(name, _)| !has(name) && (*name != "cuda_ipc" || gpus > 1))
        .collect();
    let (_, harm) = missing.first()?;
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    Some(format!("leaves out {}: {harm}", names.join(", ")))
}

/// What a choice of Open MPI's BTLs turns off.
pub fn btl(value: &str, gpus: usize) -> Option<String> {
    let (without, names) = list(value);
    let has = |wanted: &[&str]| names.iter().any(|name| wanted.contains(name)) != without;
    if !has(&["vader", "sm", "smcuda"]) {
        return Some("keeps Open MPI from shared memory: messages on one host go over TCP, unless the pml is ucx".to_owned());
    }
    // Version 5 has no such choice to make: its accelerator framework serves every BTL.
    (gpus > 0 && !has(&["smcuda"]) && !without && names.contains(&"vader")).then(|| {
        "leaves out smcuda: Open MPI 4 does not send GPU memory on one host, unless the pml is ucx"
            .to_owned()
    })
}

/// What a choice of Open MPI's PML turns off.
pub fn pml(value: &str, has_nic: bool) -> Option<String> {
    let (without, names) = list(value);
    let ucx = names.contains(&"ucx") != without;
    (has_nic && !ucx && (without || names.contains(&"ob1"))).then(|| {
        "keeps Open MPI from UCX: since version 5 messages between hosts then go over TCP"
            .to_owned()
    })
}

/// A variable that switches GPU memory off.
pub fn gpu_off(value: &str, gpus: usize) -> Option<String> {
    let off = ["0", "n", "no", "false", "off"].contains(&value.to_ascii_lowercase().as_str());
    (gpus > 0 && off).then(|| "keeps the MPI library from GPU memory".to_owned())
}

/// A variable that switches a transport of GPU memory off.
pub fn path_off(value: &str, gpus: usize, harm: &str) -> Option<String> {
    gpu_off(value, gpus).map(|_| harm.to_owned())
}

/// The names of a list, and whether it excludes them.
fn list(value: &str) -> (bool, Vec<&str>) {
    let (without, names) = match value.strip_prefix('^') {
        Some(names) => (true, names),
        None => (false, value),
    };
    (without, names.split(',').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ucx_transports_that_are_left_out() {
        for (value, gpus, words) in [
            ("all", 2, None),
            ("rc,sm,cuda", 2, None),
            ("rc,cuda_copy,cuda_ipc,gdr_copy", 2, None),
            ("rc,sm", 2, Some("leaves out cuda_copy, cuda_ipc, gdr_copy: UCX does not")),
            ("rc,sm", 0, None),
            ("rc,cuda_copy,gdr_copy", 1, None),
            ("rc,cuda_copy,gdr_copy", 2, Some("leaves out cuda_ipc: GPU memory on one host")),
            ("^cuda_ipc", 2, Some("leaves out cuda_ipc: ")),
            ("^gdr_copy", 2, Some("leaves out gdr_copy: small messages")),
            ("^cuda", 1, Some("leaves out cuda_copy, gdr_copy: UCX does not")),
            ("^tcp", 2, None),
            ("(set)", 2, None),
        ] {
            let found = ucx_tls(value, gpus);
            match words {
                None => assert_eq!(found, None, "{value}"),
                Some(words) => assert!(
                    found.as_ref().is_some_and(|found| found.starts_with(words)),
                    "{value}: {found:?}"
                ),
            }
        }
    }

    #[test]
    fn open_mpi_choices() {
        assert!(btl("tcp,self", 0).is_some_and(|harm| harm.contains("TCP")));
        assert!(btl("^vader,sm,smcuda", 0).is_some());
        assert!(btl("vader,self", 1).is_some_and(|harm| harm.contains("smcuda")));
        for (value, gpus) in [
            ("vader,self", 0),
            ("smcuda,vader,self", 1),
            ("^openib", 1),
            ("^tcp", 2),
            ("sm,self", 1),
        ] {
            assert_eq!(btl(value, gpus), None, "{value}");
        }
        assert!(pml("ob1", true).is_some() && pml("^ucx", true).is_some());
        for (value, has_nic) in
            [("ob1", false), ("ucx", true), ("ucx,ob1", true), ("^cm", true), ("cm", true)]
        {
            assert_eq!(pml(value, has_nic), None, "{value}");
        }
        assert!(gpu_off("0", 1).is_some() && gpu_off("False", 1).is_some());
        assert_eq!((gpu_off("1", 1), gpu_off("0", 0)), (None, None));
    }
}
