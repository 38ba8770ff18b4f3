//! The communicators that each process of a log is a rank of: of which one a line is, also where NCCL gives it no id.

use std::collections::{BTreeSet, HashMap};
use std::ops::Index;

use super::message::{CommLine, PathLine, Side};
use super::processes::{FastMap, Thread};

const MAX_COMMUNICATORS: usize = 256 << 10;

/// Communicators of one process and rank that a path without a name may be of.
const MAX_LAST: usize = 16;

/// A rank's part of a communicator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    pub process: u32,
    pub pointer: String,
    pub id: Option<String>,
    pub color: Option<String>,
    pub rank: Option<u32>,
    pub ranks: Option<u32>,
    pub bus: Option<String>,
    pub nvls: u32,
    /// The member whose paths these are too: the log repeats them before it names the communicator again.
    pub same_as: Option<u32>,
    is_complete: bool,
}

#[derive(Debug, Default)]
pub struct Members {
    all: Vec<Member>,
    ids: HashMap<(u32, String, Option<u32>), u32>,
    /// The last communicators of a process with a rank, the newest last.
    last: FastMap<(u32, u32), Vec<u32>>,
    /// The communicator that a thread is connecting.
    current: FastMap<Thread, u32>,
    /// Some communicator is complete and has no id.
    has_nameless: bool,
    /// The log has more of them than are kept.
    pub cut: bool,
}

impl Index<usize> for Members {
    type Output = Member;

    fn index(&self, at: usize) -> &Member {
        &self.all[at]
    }
}

impl Members {
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.all.iter()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The ranks of members.
    pub fn ranks(&self, members: &[u32]) -> BTreeSet<u32> {
        members.iter().filter_map(|at| self[*at as usize].rank).collect()
    }

    /// A communicator began to work.
    pub fn have_started(&self) -> bool {
        self.iter().any(|member| member.is_complete)
    }

    /// Reads a line about a communicator; false if there is no room for it.
    pub fn read(&mut self, comm: &CommLine<'_>, thread: Thread) -> bool {
        let rank = Some(comm.rank);
        // A pointer is used again after a communicator is destroyed, its id is not.
        let known = match comm.id {
            Some(id) => self.known(thread.0, id, rank),
            None => self.by_pointer(thread.0, comm),
        };
        // Up to NCCL 2.17 the paths come first, then this line.
        let current = self.current.get(&thread).copied();
        let open = current.filter(|open| self[*open as usize].rank.is_none());
        let Some(at) = known.or(open).or_else(|| self.add(thread.0)) else { return false };
        if let Some(open) = open.filter(|open| *open != at) {
            self.all[open as usize].same_as = Some(at);
        }
        for name in [Some(comm.pointer), comm.id].into_iter().flatten() {
            self.ids.insert((thread.0, name.to_owned(), rank), at);
        }
        let member = &mut self.all[at as usize];
        comm.pointer.clone_into(&mut member.pointer);
        member.rank = rank;
        member.ranks = member.ranks.or(comm.ranks);
        member.id = member.id.take().or_else(|| comm.id.map(str::to_owned));
        member.color = member.color.take().or_else(|| comm.color.map(str::to_owned));
        member.bus = member.bus.take().or_else(|| comm.bus.map(str::to_owned));
        member.is_complete |= comm.is_complete;
        self.has_nameless |= member.is_complete && member.id.is_none();
        let last = self.last.entry((thread.0, comm.rank)).or_default();
        last.retain(|known| *known != at);
        if last.len() >= MAX_LAST {
            last.remove(0);
        }
        last.push(at);
        self.current.insert(thread, at);
        true
    }

    /// The newest communicator with a pointer, of this size if the line says it.
    fn by_pointer(&self, process: u32, comm: &CommLine<'_>) -> Option<u32> {
        let has_size = |at: &u32| {
            let ranks = self[*at as usize].ranks;
            ranks.is_none() || comm.ranks.is_none() || ranks == comm.ranks
        };
        let newest = self.known(process, comm.pointer, Some(comm.rank));
        newest.filter(has_size).or_else(|| {
            let earlier = self.last.get(&(process, comm.rank))?.iter().rev().copied();
            let mut same = earlier.filter(|at| self[*at as usize].pointer == comm.pointer);
            same.find(has_size).filter(|_| newest.is_some())
        })
    }

    fn known(&self, process: u32, name: &str, rank: Option<u32>) -> Option<u32> {
        self.ids.get(&(process, name.to_owned(), rank)).copied()
    }

    fn add(&mut self, process: u32) -> Option<u32> {
        if self.all.len() >= MAX_COMMUNICATORS {
            self.cut = true;
            return None;
        }
        let at = u32::try_from(self.all.len()).ok()?;
        self.all.push(Member { process, ..Member::default() });
        Some(at)
    }

    /// Another communicator begins where the last one is complete; from NCCL 2.18 on its first line says so.
    pub fn connect(&mut self, thread: Thread) {
        if self.has_nameless
            && let Some(current) = self.current.get(&thread)
            && self[*current as usize].is_complete
            && self[*current as usize].id.is_none()
        {
            // It has no name yet.
            if let Some(open) = self.add(thread.0) {
                self.current.insert(thread, open);
            }
        }
    }

    pub fn set_nvls(&mut self, thread: Thread, channels: u32) {
        if let Some(member) = self.current.get(&thread) {
            let member = &mut self.all[*member as usize];
            member.nvls = member.nvls.max(channels);
        }
    }

    /// The communicator of a path: of the thread, else the process's last one with these ranks, else one whose line follows.
    pub fn of_path(&mut self, thread: Thread, path: &PathLine<'_>) -> Option<u32> {
        let own = match path.side {
            Side::Receive => path.to.unwrap_or(path.from),
            Side::Both | Side::Send => path.from,
        };
        let highest = path.from.max(path.to.unwrap_or(0));
        let is_of = |at: &&u32| {
            let member = &self[**at as usize];
            let has_ranks = member.ranks.is_none_or(|ranks| highest < ranks);
            member.rank.is_none_or(|rank| rank == own) && has_ranks
        };
        if let Some(current) = self.current.get(&thread).filter(is_of) {
            return Some(*current);
        }
        let last = self.last.get(&(thread.0, own));
        let known = last.and_then(|last| last.iter().rev().find(is_of)).copied();
        let at = match known {
            Some(known) => known,
            None => self.add(thread.0)?,
        };
        self.current.insert(thread, at);
        Some(at)
    }
}
