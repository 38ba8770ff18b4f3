//! The PCI forest: parents, children and links.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Order as _;
use crate::model::{Bdf, Fact, Link, LinkState, PciDevice, PortType, RootBus, Why};

pub struct Forest<'a> {
    devices: &'a [PciDevice],
    roots: BTreeMap<RootBus, Vec<usize>>,
    /// The bridges with functions below them.
    parents: BTreeSet<Bdf>,
    /// Roles in the order of the functions; paths need them for every hop.
    roles: Vec<Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A device's function.
    Endpoint,
    RootPort,
    /// A switch port towards the root.
    UpstreamPort,
    /// A switch port away from the root.
    DownstreamPort,
    /// Another bridge, such as to conventional PCI.
    Bridge,
    /// A bridge whose type and parent are not in the source.
    Unplaced,
}

impl Role {
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::RootPort => "root port",
            Self::UpstreamPort => "upstream port",
            Self::DownstreamPort => "downstream port",
            Self::Bridge | Self::Unplaced => "bridge",
        }
    }
}

impl<'a> Forest<'a> {
    /// `devices` must be sorted by address.
    pub fn new(devices: &'a [PciDevice]) -> Self {
        let mut roots: BTreeMap<RootBus, Vec<usize>> = BTreeMap::new();
        let mut parents = BTreeSet::new();
        for (at, device) in devices.iter().enumerate() {
            if let Some(place) = device.place.known() {
                match place.bridges.last() {
                    Some(parent) => {
                        parents.insert(*parent);
                    }
                    None => roots.entry(place.root).or_default().push(at),
                }
            }
        }
        let mut forest = Self { devices, roots, parents, roles: Vec::new() };
        forest.roles = forest.roles();
        forest
    }

    /// The roles, parents first, because a role depends on the parent's.
    fn roles(&self) -> Vec<Role> {
        let depth =
            |device: &PciDevice| device.place.known().map_or(0, |place| place.bridges.len());
        let mut order: Vec<usize> = (0..self.devices.len()).collect();
        order.order_by_key(|at| depth(&self.devices[*at]));
        let mut roles = vec![Role::Endpoint; self.devices.len()];
        for at in order {
            let device = &self.devices[at];
            let parent = self.parent(device).and_then(|parent| self.position(parent.bdf));
            roles[at] = self.judge(device, parent.map(|parent| roles[parent]));
        }
        roles
    }

    fn position(&self, bdf: Bdf) -> Option<usize> {
        self.devices.binary_search_by_key(&bdf, |device| device.bdf).ok()
    }

    pub fn device(&self, bdf: Bdf) -> Option<&'a PciDevice> {
        self.devices.get(self.position(bdf)?)
    }

    pub fn roots(&self) -> impl Iterator<Item = (RootBus, impl Iterator<Item = &'a PciDevice>)> {
        self.roots.iter().map(|(root, on)| (*root, on.iter().map(|at| &self.devices[*at])))
    }

    /// The bridge directly above a function. Must be nearer to the root, so that hand-written cycles terminate.
    pub fn parent(&self, device: &PciDevice) -> Option<&'a PciDevice> {
        let (bridge, above) = device.place.known()?.bridges.split_last()?;
        self.device(*bridge).filter(|parent| {
            parent.place.known().is_none_or(|place| place.bridges.len() <= above.len())
        })
    }

    pub fn role(&self, device: &PciDevice) -> Role {
        let role = self.position(device.bdf).and_then(|at| self.roles.get(at));
        role.copied().unwrap_or(Role::Endpoint)
    }

    /// The role, considering the parent's: QEMU's root ports below a switch are downstream ports.
    fn judge(&self, device: &PciDevice, parent: Option<Role>) -> Role {
        let has_children = self.parents.contains(&device.bdf);
        if !has_children && !device.ids.known().is_some_and(|ids| ids.is_bridge()) {
            return Role::Endpoint;
        }
        if let Some(PortType::PcieToPci | PortType::PciToPcie) =
            device.config.express.present().map(|e| e.port)
        {
            return Role::Bridge;
        }
        match parent {
            None if is_on_a_root_bus(device) => Role::RootPort,
            // The parent is not in the source: trust the function's own type.
            None | Some(Role::Unplaced) => {
                match device.config.express.present().map(|express| express.port) {
                    Some(PortType::RootPort) => Role::RootPort,
                    Some(PortType::UpstreamPort) => Role::UpstreamPort,
                    Some(PortType::DownstreamPort) => Role::DownstreamPort,
                    _ => Role::Unplaced,
                }
            }
            Some(Role::RootPort | Role::DownstreamPort) => Role::UpstreamPort,
            Some(Role::UpstreamPort) => Role::DownstreamPort,
            Some(Role::Bridge | Role::Endpoint) => Role::Bridge,
        }
    }

    /// What a function's own link could do in a better slot, if the function has a link.
    pub fn capability(&self, device: &PciDevice) -> Option<Link> {
        Some(own_link(device).known()?.as_ref()?.max)
    }

    /// Why the capabilities of one end of a link are unknown; the link may then be at that end's maximum. The port above a function
    /// may be missing in a text, and in a guest.
    pub fn one_end_unknown(&self, device: &PciDevice) -> Option<Why> {
        let above = match self.parent(device) {
            Some(parent) => own_link(parent).why(),
            None => Some(Why::NotCovered),
        };
        own_link(device).why().or(above)
    }

    /// The link above a function; `None` if it has none: ports of the root complex, the inside of a switch, integrated
    /// devices. Guests often see a device without the port above; then the device's own data count.
    pub fn link_above(&self, device: &PciDevice) -> Fact<Option<LinkState>> {
        match self.role(device) {
            Role::DownstreamPort | Role::RootPort => return Fact::Known(None),
            // It may be inside a switch.
            Role::Unplaced => return Fact::Unknown(Why::NotCovered),
            Role::Endpoint | Role::UpstreamPort | Role::Bridge => {}
        }
        let Some(parent) = self.parent(device) else {
            // On a root bus: integrated, or passed to a guest without the port above.
            return own_link(device);
        };
        let (below, above) = (own_link(device), own_link(parent));
        match (below, above) {
            (Fact::Known(Some(below)), Fact::Known(Some(above))) => Fact::Known(Some(LinkState {
                current: below.current,
                max: Link {
                    speed: below.max.speed.min(above.max.speed),
                    width: below.max.width.min(above.max.width),
                },
            })),
            (Fact::Known(Some(link)), _) | (_, Fact::Known(Some(link))) => Fact::Known(Some(link)),
            (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(why),
            (Fact::Known(None), Fact::Known(None)) => Fact::Known(None),
        }
    }
}

/// True if the function is directly below the root complex.
fn is_on_a_root_bus(device: &PciDevice) -> bool {
    device.place.known().is_some_and(|place| place.rooted && place.bridges.is_empty())
}

/// A function's link from its PCI Express capability, or from attribute files if that is unreadable.
///
/// Where both are known and differ, the source read them at different times: a link that is idle at one of them counts as it was at its
/// fastest and widest.
fn own_link(device: &PciDevice) -> Fact<Option<LinkState>> {
    let from_config = match &device.config.express {
        Fact::Known(Some(express)) => express.link.as_ref().map(|link| {
            let read = LinkState { current: link.current, max: link.max };
            match from_attributes(device, Why::NotCovered) {
                Fact::Known(Some(other)) => fastest(read, other),
                _ => read,
            }
        }),
        Fact::Known(None) => None,
        Fact::Unknown(why) => return from_attributes(device, *why),
    };
    Fact::Known(from_config.filter(|link| link.current.width > 0))
}

fn fastest(link: LinkState, other: LinkState) -> LinkState {
    let most = |a: Link, b: Link| Link { speed: a.speed.max(b.speed), width: a.width.max(b.width) };
    LinkState { current: most(link.current, other.current), max: most(link.max, other.current) }
}

fn from_attributes(device: &PciDevice, why: Why) -> Fact<Option<LinkState>> {
    match device.attributes.as_ref().map(|attributes| &attributes.link) {
        Some(Fact::Known(link)) => Fact::Known(*link),
        _ => Fact::Unknown(why),
    }
}
