//! The links of one level of a growing graph, which several threads read and write.
//!
//! Each list has a fixed place: its length, then the ids of the linked nodes. Writers of a list
//! hold its lock. Readers do not: they may see a list that is partly replaced, which contains
//! valid nodes only.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::walk::Near;

const NUM_LOCKS: usize = 1 << 12;

pub struct Lists {
    /// Per list: a length, then `room` ids.
    ids: Vec<AtomicU32>,
    /// Per list: `room` distances, as bits.
    distances: Vec<AtomicU32>,
    locks: Vec<Mutex<()>>,
    room: usize,
}

/// One list, locked for writing.
pub struct Locked<'a> {
    length: &'a AtomicU32,
    ids: &'a [AtomicU32],
    distances: &'a [AtomicU32],
    _guard: MutexGuard<'a, ()>,
}

impl Lists {
    /// Makes `count` empty lists with room for `room` links each.
    pub fn new(count: usize, room: usize) -> Self {
        let zeros = |size| (0..size).map(|_| AtomicU32::new(0)).collect();
        Self {
            ids: zeros(count * (room + 1)),
            distances: zeros(count * room),
            locks: (0..count.min(NUM_LOCKS)).map(|_| Mutex::new(())).collect(),
            room,
        }
    }

    /// Calls `visit` with each id of a list.
    #[inline]
    pub fn each(&self, list: usize, mut visit: impl FnMut(u32)) {
        if let Some((length, ids)) = self.place(list) {
            let length = length.load(Ordering::Acquire) as usize;
            for id in ids.iter().take(length) {
                visit(id.load(Ordering::Relaxed));
            }
        }
    }

    /// Reads the length of a list, after which its first ids are in a cache, too.
    #[inline]
    pub fn touch(&self, list: usize) {
        if let Some((length, _)) = self.place(list) {
            black_box(length.load(Ordering::Relaxed));
        }
    }

    /// Locks a list; None if there is no such list.
    pub fn lock(&self, list: usize) -> Option<Locked<'_>> {
        let (length, ids) = self.place(list)?;
        let start = list * self.room;
        let distances = self.distances.get(start..start + self.room)?;
        let lock = self.locks.get(list % self.locks.len().max(1))?;
        let guard = match lock.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        Some(Locked {
            length,
            ids,
            distances,
            _guard: guard,
        })
    }

    fn place(&self, list: usize) -> Option<(&AtomicU32, &[AtomicU32])> {
        let start = list * (self.room + 1);
        self.ids.get(start..start + self.room + 1)?.split_first()
    }
}

impl Locked<'_> {
    pub fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed) as usize
    }

    /// The linked nodes with their distances.
    pub fn links(&self) -> impl Iterator<Item = Near> {
        let pairs = self.ids.iter().zip(self.distances).take(self.len());
        pairs.map(|(id, distance)| {
            let distance = f32::from_bits(distance.load(Ordering::Relaxed));
            Near::new(distance, id.load(Ordering::Relaxed))
        })
    }

    /// Appends a link; no effect if there is no room.
    pub fn push(&self, link: Near) {
        let length = self.len();
        if let (Some(id), Some(distance)) = (self.ids.get(length), self.distances.get(length)) {
            id.store(link.node(), Ordering::Relaxed);
            distance.store(link.distance().to_bits(), Ordering::Relaxed);
            self.length.fetch_add(1, Ordering::Release);
        }
    }

    /// Replaces all links; those that find no room are left out.
    pub fn replace(&self, links: &[Near]) {
        let mut length = 0;
        for ((link, id), distance) in links.iter().zip(self.ids).zip(self.distances) {
            id.store(link.node(), Ordering::Relaxed);
            distance.store(link.distance().to_bits(), Ordering::Relaxed);
            length += 1;
        }
        self.length.store(length, Ordering::Release);
    }
}
