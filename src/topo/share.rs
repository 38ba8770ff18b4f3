//! Divides the nearest NICs among the GPUs: as many for each as NCCL uses (2.30, `ncclTopoGetLocalNetType` and `ncclTopoAutoMerge` in
//! src/graph/topo.cc), and evenly. Which ones NCCL chooses by itself is in `decisions`.
//!
//! The functions of one device are one NIC. Each GPU uses ⌈NICs / GPUs⌉ of those that are nearest, counting the GPUs that are nearest to
//! the first of these NICs.

use std::collections::{HashMap, HashSet};

use crate::model::{Bdf, Row};

/// How often each row and each device has been chosen.
pub struct Taken {
    rows: Vec<usize>,
    devices: HashMap<Device, usize>,
}

/// The functions of one device, or a row without an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    Functions(u32, u8, u8),
    Row(usize),
}

/// The device of a row.
pub fn device_of(rows: &[Row], row: usize) -> Device {
    match rows[row].bdf {
        Some(bdf) => Device::Functions(bdf.domain, bdf.bus, bdf.device),
        None => Device::Row(row),
    }
}

impl Taken {
    pub fn new(rows: usize) -> Self {
        Self { rows: vec![0; rows], devices: HashMap::new() }
    }

    /// Chooses among equals: what was chosen least, then by address. Names differ between boots and distributions, addresses do not.
    pub fn least(&self, rows: &[Row], among: &[usize]) -> Option<usize> {
        among.iter().copied().min_by_key(|row| {
            let (times, address) = self.of_device(rows, *row);
            (times, self.rows[*row], address)
        })
    }

    /// The rows of `devices` of the devices among these, those of `first` in front; they count as chosen.
    pub fn take(
        &mut self,
        rows: &[Row],
        among: &[usize],
        first: usize,
        devices: usize,
    ) -> Vec<usize> {
        let mine = device_of(rows, first);
        let mut left = without_virtual(rows, among, first);
        left.sort_by_key(|row| {
            let device = device_of(rows, *row);
            let (times, address) = self.of_device(rows, *row);
            (device != mine, times, device, *row != first, address)
        });
        let mut chosen: Vec<Device> = Vec::new();
        left.retain(|row| {
            let device = device_of(rows, *row);
            let is_new = chosen.last() != Some(&device);
            if is_new && chosen.len() < devices {
                chosen.push(device);
            }
            chosen.last() == Some(&device)
        });
        for device in chosen {
            *self.devices.entry(device).or_default() += 1;
        }
        self.rows[first] += 1;
        left
    }

    fn of_device(&self, rows: &[Row], row: usize) -> (usize, (Option<Bdf>, usize)) {
        let times = self.devices.get(&device_of(rows, row)).copied();
        (times.unwrap_or(0), (rows[row].bdf, row))
    }
}

/// The rows without the virtual functions of others among them: they share the port of their physical function.
pub fn without_virtual(rows: &[Row], among: &[usize], first: usize) -> Vec<usize> {
    let functions: HashSet<Bdf> = among.iter().filter_map(|row| rows[*row].bdf).collect();
    let is_extra = |row: usize| {
        let physical = rows[row].virtual_function.and_then(|own| own.physical_function);
        row != first && physical.is_some_and(|physical| functions.contains(&physical))
    };
    among.iter().copied().filter(|row| !is_extra(*row)).collect()
}

/// Number of devices among these rows.
pub fn devices(rows: &[Row], among: &[usize]) -> usize {
    let mut devices: Vec<Device> = among.iter().map(|row| device_of(rows, *row)).collect();
    devices.sort_unstable();
    devices.dedup();
    devices.len()
}
