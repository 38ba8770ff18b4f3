//! Which memory meets which port: each GPU with its best card, or with all of them.

use super::supervise::{Options, Sort};
use super::{Memory, Place, Port};
use crate::probe::request::Target;
use crate::probe::supervise::Card;

/// A card's port as a person names it: `mlx5_0` or `mlx5_0:1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The card.
    pub device: String,
    /// Its port; none for the first one that is up.
    pub port: Option<u8>,
}

/// The ends that this machine has for what was asked: those with the most to say first. The words of what is missing where there
/// is none.
pub fn places(options: &Options, cards: &[Card], gpus: &[Target]) -> Result<Vec<Place>, String> {
    let wanted = options
        .devices
        .iter()
        .map(|named| ported(named, cards))
        .collect::<Result<Vec<_>, String>>()?;
    if wanted.is_empty() && up(cards).is_empty() {
        return Err(no_port(cards));
    }
    let on_gpus = matches!(options.sort, Sort::Gpu | Sort::Pinned) || (options.sort == Sort::Best && !gpus.is_empty());
    if !on_gpus {
        let memory = if options.sort == Sort::Huge {
            Memory::Huge
        } else {
            Memory::Host
        };
        let ports = if wanted.is_empty() { up(cards) } else { wanted };
        return Ok(ports
            .into_iter()
            .map(|(card, port)| place(options, card, port, &memory, None))
            .collect());
    }
    let mut places = Vec::new();
    for gpu in gpus {
        let memory = match options.sort {
            Sort::Pinned => Memory::Pinned(gpu.clone()),
            _ => Memory::Gpu(gpu.clone(), options.road),
        };
        let ports = match (wanted.is_empty(), options.all) {
            (false, true) => wanted.clone(),
            (true, true) => up(cards),
            (false, false) => nearest(gpu, &wanted).into_iter().collect(),
            (true, false) => nearest(gpu, &up(cards)).into_iter().collect(),
        };
        places.extend(
            ports
                .into_iter()
                .map(|(card, port)| place(options, card, port, &memory, Some(gpu))),
        );
    }
    Ok(places)
}

/// The far end on this machine: the port that was named, with memory of the GPU that it is the best one of, else of the near one.
pub fn far(options: &Options, cards: &[Card], gpus: &[Target], named: &Named, near: &Place) -> Result<Place, String> {
    let (card, port) = ported(named, cards)?;
    let of = |target: &Target| {
        let its = |gpu: &&Target| gpu.bdf.is_some_and(|bdf| card.best_of.contains(&bdf));
        gpus.iter().find(its).unwrap_or(target).clone()
    };
    let (memory, gpu) = match &near.memory {
        Memory::Gpu(target, road) => (Memory::Gpu(of(target), *road), Some(of(target))),
        Memory::Pinned(target) => (Memory::Pinned(of(target)), Some(of(target))),
        plain => (plain.clone(), None),
    };
    Ok(place(options, card, port, &memory, gpu.as_ref()))
}

/// The port of a GPU's best card, or of the one that was named; the words of what is missing where there is none.
pub fn port_of(gpu: &Target, cards: &[Card], named: Option<&Named>, gid: Option<u8>) -> Result<Port, String> {
    let (card, number) = match named {
        Some(named) => ported(named, cards)?,
        None => nearest(gpu, &up(cards)).ok_or_else(|| no_port(cards))?,
    };
    Ok(Port {
        device: card.name.clone(),
        number,
        gid,
    })
}

/// The first port of each card that has one up.
fn up(cards: &[Card]) -> Vec<(&Card, u8)> {
    let first = |card: &Card| card.ports.first().map(|(port, _)| *port);
    cards.iter().filter_map(|card| Some((card, first(card)?))).collect()
}

fn no_port(cards: &[Card]) -> String {
    let there: Vec<&str> = cards.iter().map(|card| card.name.as_str()).collect();
    match there.as_slice() {
        [] => "there is no RDMA device here that libibverbs serves: see gdr doctor --only rdma.device,rdma.provider"
            .to_owned(),
        there => format!(
            "no port of {} is up: see gdr doctor --only rdma.port, or name one with --device",
            there.join(", ")
        ),
    }
}

fn ported<'c>(named: &Named, cards: &'c [Card]) -> Result<(&'c Card, u8), String> {
    let card = cards.iter().find(|card| card.name == named.device).ok_or_else(|| {
        let there: Vec<&str> = cards.iter().map(|card| card.name.as_str()).collect();
        let there = if there.is_empty() {
            "none".to_owned()
        } else {
            there.join(", ")
        };
        format!(
            "libibverbs serves no device '{}' here; there are: {there}",
            named.device
        )
    })?;
    let first = card.ports.first().map_or(1, |(port, _)| *port);
    Ok((card, named.port.unwrap_or(first)))
}

/// The one that the topology chose, else the first.
fn nearest<'c>(gpu: &Target, ports: &[(&'c Card, u8)]) -> Option<(&'c Card, u8)> {
    let is_best = |(card, _): &&(&Card, u8)| gpu.bdf.is_some_and(|bdf| card.best_of.contains(&bdf));
    ports.iter().find(is_best).or(ports.first()).copied()
}

fn place(options: &Options, card: &Card, port: u8, memory: &Memory, gpu: Option<&Target>) -> Place {
    let reach = gpu.and_then(|gpu| {
        let bdf = gpu.bdf?;
        card.reaches.iter().find(|(reached, ..)| *reached == bdf)
    });
    let at = format!("{}:{port}", card.name);
    Place {
        subject: match gpu {
            Some(gpu) => format!("{} {at}", gpu.subject.split(' ').next().unwrap_or_default()),
            None => at,
        },
        port: Port {
            device: card.name.clone(),
            number: port,
            gid: options.gid,
        },
        memory: memory.clone(),
        class: reach.and_then(|(_, class, _)| class.clone()),
        path: reach.and_then(|(.., path)| *path),
        rate: match card.software {
            // What the kernel says of it is made up.
            true => None,
            false => card
                .ports
                .iter()
                .find(|(number, _)| *number == port)
                .and_then(|(_, rate)| *rate),
        },
    }
}
