//! Which memory path registers GPU memory, and what is reported of those that do not: every combination of failures at export, attach and
//! registration.

use gpu::{Allocation, DeviceMemory, Gpu};
use serde_json::{Value, json};
use verbs::{
    Access, Chosen, Context, MemoryPath, MemoryPathStep as Step, PathFacts, ProtectionDomain,
    Rejections,
};

use crate::ends::domain;
use crate::machine::{machine, on, on_mlx5};
use MemoryPath::{DataDirect, Dmabuf, DmabufPcie, Peermem};

/// No failure, and the errors of the drivers: ENOTSUPP (which only an exporter returns), EOPNOTSUPP, EINVAL.
const ERRORS: [i32; 4] = [0, 524, 95, 22];

/// A memory path's failures: at attach or at registration.
const FAILURES: [(i32, i32); 7] = [(0, 0), (524, 0), (95, 0), (22, 0), (0, 524), (0, 95), (0, 22)];

/// How a NIC fails, by memory path.
#[derive(Debug, Clone, Copy)]
struct Nic {
    data_direct: (i32, i32),
    pcie: (i32, i32),
    default: (i32, i32),
    peermem: bool,
}

impl Nic {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for data_direct in FAILURES {
            for pcie in FAILURES {
                for default in FAILURES {
                    all.extend([false, true].map(|peermem| Self {
                        data_direct,
                        pcie,
                        default,
                        peermem,
                    }));
                }
            }
        }
        all
    }

    fn described(self, number: usize) -> Value {
        let each = |of: fn((i32, i32)) -> i32| {
            json!({
                "data_direct": of(self.data_direct), "pcie": of(self.pcie), "default": of(self.default),
            })
        };
        json!({
            "name": format!("mlx5_{number}"), "data_direct": "/devices/pci0002:00/0002:00:01.0", "peermem": self.peermem,
            "attach": each(|failure| failure.0), "registration": each(|failure| failure.1),
        })
    }

    /// What a memory path is expected to fail with on a GPU with these results of the export.
    fn expected(self, memory_path: MemoryPath, pcie: i32, default: i32) -> Option<(Step, i32)> {
        let (export, (attach, registration)) = match memory_path {
            DataDirect => (pcie, self.data_direct),
            DmabufPcie => (pcie, self.pcie),
            Dmabuf => (default, self.default),
            // EFAULT, without a peer memory client.
            Peermem if self.peermem => (0, (0, 0)),
            Peermem => (0, (0, 14)),
        };
        match (export, attach, registration) {
            (0, 0, 0) => None,
            // The kernel reports both in the same way, and only the exporter says 524.
            (0, 524, _) | (0, 0, 524) => Some((Step::Attach, 524)),
            (0, 0, errno) | (0, errno, _) => Some((Step::Registration, errno)),
            (result, ..) => Some((Step::Export, result)),
        }
    }
}

/// The GPUs: every pair of results of the export, with the PCIe mapping and with the default one.
fn gpus() -> Vec<(i32, i32)> {
    let pairs = ERRORS.map(|pcie| ERRORS.map(|default| (pcie, default)));
    pairs.into_iter().flatten().collect()
}

fn memory(ordinal: usize) -> DeviceMemory {
    let gpu = Gpu::open(ordinal as u32).expect("a GPU");
    gpu.allocate(Allocation::Malloc, 4096).expect("memory")
}

/// The chosen memory path, and the steps and numbers of those before it.
fn outcome<T>(
    tried: &Result<Chosen<T>, Rejections>,
) -> (Option<MemoryPath>, Vec<(MemoryPath, Step, i32)>) {
    let (memory_path, rejections) = match tried {
        Ok(chosen) => (Some(chosen.memory_path), &chosen.rejections),
        Err(rejections) => (None, rejections),
    };
    let failed = rejections.0.iter().map(|rejection| {
        let number = rejection.error.number().expect("a number");
        (rejection.memory_path, rejection.error.step(), number)
    });
    (memory_path, failed.collect())
}

#[test]
fn every_combination() {
    let nics = Nic::all();
    let mut all = machine();
    all["gpus"] = gpus()
        .iter()
        .enumerate()
        .map(|(number, (pcie, default))| {
            // 0 is not an error.
            let result = |code: i32| if code == 0 { json!(null) } else { json!(code) };
            json!({
                "bdf": format!("0000:{number:02x}:00.0"), "dmabuf_pcie": result(*pcie), "dmabuf_default": result(*default),
            })
        })
        .collect();
    all["verbs"]["devices"] =
        nics.iter().enumerate().map(|(number, nic)| nic.described(number)).collect();
    on_mlx5("paths::every_combination", &all, || {
        let memories: Vec<DeviceMemory> = (0..gpus().len()).map(memory).collect();
        for (number, nic) in nics.iter().enumerate() {
            let domain = domain(&format!("mlx5_{number}"));
            for ((pcie, default), memory) in gpus().iter().zip(&memories) {
                check(*nic, (*pcie, *default), &domain, memory);
            }
        }
    });
}

/// Tries the memory paths of three kinds of machines.
fn check(nic: Nic, (pcie, default): (i32, i32), domain: &ProtectionDomain, memory: &DeviceMemory) {
    for order in [
        &[Dmabuf, Peermem][..],
        &[DmabufPcie, Dmabuf, Peermem],
        &[DataDirect, DmabufPcie, Dmabuf, Peermem],
    ] {
        // A failure of a path that is not tried is tested once, without failures of it.
        let is_whole = |path, failure| order.contains(&path) || failure == (0, 0);
        let is_new = is_whole(DataDirect, nic.data_direct) && is_whole(DmabufPcie, nic.pcie);
        if !is_new || (order.len() == 2 && pcie != 0) {
            continue;
        }
        let facts = PathFacts {
            c2c: Some(order.len() > 2),
            below_one_bridge: Some(true),
            data_direct: order.len() > 3,
        };
        let tried = Chosen::first(&facts.memory_paths(), |memory_path| {
            domain.register_by(memory_path, memory, Access::ALL)
        });
        let failed = |path: &MemoryPath| nic.expected(*path, pcie, default);
        let works = order.iter().position(|path| failed(path).is_none());
        let before = &order[..works.unwrap_or(order.len())];
        let rejected = before.iter().map(|path| {
            let (step, number) = failed(path).expect("a failure");
            (*path, step, number)
        });
        let expected = (works.map(|at| order[at]), rejected.collect::<Vec<_>>());
        assert_eq!(outcome(&tried), expected, "{nic:?}, {pcie}, {default}");
    }
}

/// Two GPUs, the second with NVLink-C2C, and a NIC with a Data Direct function.
fn superchip() -> Value {
    let mut superchip = machine();
    superchip["gpus"][1]["attributes"] = json!({"100": 1});
    superchip["verbs"]["devices"][0]["data_direct"] = json!("/devices/pci0002:00/0002:00:01.0");
    superchip
}

#[test]
fn data_direct_of_coherent_gpu() {
    let mut refused = superchip();
    refused["verbs"]["devices"][0]["attach"] = json!({"data_direct": 524});
    on_mlx5("paths::data_direct_of_coherent_gpu", &refused, || {
        let chosen = domain("mlx5_0").register_gpu(&memory(1), Access::ALL).expect("a memory path");
        assert_eq!(chosen.memory_path, Dmabuf);
        assert_eq!(
            chosen.rejections.to_string(),
            "data-direct (attach): mlx5_0 cannot register 4096 bytes (mlx5dv_reg_dmabuf_mr): Operation not supported by \
             the driver, ENOTSUPP (os error 524)"
        );
        // The other NIC has no such function.
        let chosen = domain("mlx5_1").register_gpu(&memory(1), Access::ALL).expect("a memory path");
        assert_eq!(outcome(&Ok(chosen)), (Some(Dmabuf), vec![]));
    });
}

#[test]
fn data_direct_comes_first() {
    on_mlx5("paths::data_direct_comes_first", &superchip(), || {
        let nic = Context::open("mlx5_0").expect("a NIC");
        assert_eq!(
            nic.data_direct().expect("an answer").as_deref(),
            Some("/sys/devices/pci0002:00/0002:00:01.0".as_ref())
        );
        let chosen = domain("mlx5_0").register_gpu(&memory(1), Access::ALL).expect("a memory path");
        assert_eq!(outcome(&Ok(chosen)), (Some(DataDirect), vec![]));
    });
}

/// As on an H200: one mapping, the default one, whatever the NIC has.
#[test]
fn plain_gpu_never_asks_for_pcie_mapping() {
    let mut plain = superchip();
    plain["dmabuf_pcie"] = json!(801);
    on_mlx5("paths::plain_gpu_never_asks_for_pcie_mapping", &plain, || {
        let chosen = domain("mlx5_0").register_gpu(&memory(0), Access::ALL);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(outcome(&chosen), (Some(Dmabuf), vec![]))
        } else {
            // Its driver may hide NVLink-C2C.
            assert_eq!(outcome(&chosen), (Some(Dmabuf), vec![(DataDirect, Step::Export, 801)]))
        }
    });
}

#[test]
fn without_fake_libmlx5() {
    let mut none = superchip();
    none["dmabuf_default"] = json!(801);
    none["verbs"]["peermem"] = json!(false);
    on("paths::without_fake_libmlx5", &none, || {
        let nic = domain("mlx5_0");
        assert_eq!(nic.context().data_direct().ok().flatten(), None);
        let failed = nic.register_gpu(&memory(1), Access::ALL).expect_err("no memory path");
        let text = failed.to_string();
        assert!(text.starts_with("dma-buf (export): cannot export 4096 bytes at 0x"), "{text}");
        assert!(
            text.ends_with(
                "as a dma-buf: cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED (801); peermem (registration): \
                 mlx5_0 cannot register 4096 bytes (ibv_reg_mr): Bad address (os error 14)"
            ),
            "{text}"
        );
    });
}
