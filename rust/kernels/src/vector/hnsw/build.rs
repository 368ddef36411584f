//! Building of a graph: nodes are inserted by several threads, in portions.
//!
//! Nodes of upper levels come first, so that sorted rows lead to no worse graph than others. A node
//! is linked with near nodes in different directions: a candidate is kept if it is closer to the
//! node than to all that are kept already; the nearest of the others fill the rest of the list.
//! Lists that become too long are selected from again. As that costs more than the search, lists of
//! level 0 may grow a little beyond their length, and are cut at the end. Finally, each node that
//! cannot be reached on level 0 gets a link from a node that can.

use std::sync::atomic::{AtomicUsize, Ordering};

use pulp::Arch;

use super::graph::Rows;
use super::levels;
use super::lists::Lists;
use super::storage::Storage;
use super::walk::{Ground, Links, Near, Walk};
use crate::error::{Result, ensure, out_of_range};
use crate::vector::threads::in_threads;

const NODE: &str = "node of a graph";

/// So many nodes are inserted by one thread, since concurrent insertions do not find each other.
const ALONE: usize = 256;

/// So many links a list of level 0 may have too many while the graph grows.
const SPARE: usize = 10;

/// The shape of a graph.
#[derive(Clone, Copy)]
pub struct Shape {
    /// The number of links of a new node; lists are at most this long, twice as long on level 0.
    pub m: usize,
    pub ef_construction: usize,
    pub max_level: u8,
}

/// A graph that grows.
pub struct Builder {
    growing: Growing,
    ef_construction: usize,
    num_inserted: usize,
}

/// The lists of all levels. Those of level 0 are numbered by node, others by rank.
struct Growing {
    levels: Vec<u8>,
    /// The nodes in the order of their insertion: by descending level.
    order: Vec<u32>,
    /// Where each node is in `order`.
    ranks: Vec<u32>,
    lists: Vec<Lists>,
    m: usize,
}

/// A finished graph.
pub struct Built {
    pub rows: Rows,
    /// The first row of each level, and the end of the last one.
    pub level_offsets: Vec<usize>,
    pub entry_point: u32,
}

impl Builder {
    pub fn new(num_nodes: u32, shape: Shape) -> Result<Self> {
        ensure(shape.m >= 4, "m", shape.m, "4 or more")?;
        let ef = shape.ef_construction;
        ensure(
            ef >= shape.m,
            "ef_construction",
            ef,
            format!("{} or more", shape.m),
        )?;
        ensure(
            shape.max_level >= 1,
            "max_level",
            shape.max_level,
            "1 or more",
        )?;
        Ok(Self {
            growing: Growing::new(levels::draw(num_nodes, shape.m, shape.max_level), shape.m)?,
            ef_construction: ef,
            num_inserted: 0,
        })
    }

    pub fn num_inserted(&self) -> usize {
        self.num_inserted
    }

    /// Inserts the next `count` nodes, or those that are left.
    pub fn insert(&mut self, storage: &Storage, count: usize, num_threads: usize) -> Result<()> {
        self.growing.require_valid(storage)?;
        let num_nodes = self.growing.order.len();
        let stop = self.num_inserted.saturating_add(count).min(num_nodes);
        let alone = ALONE.clamp(self.num_inserted, stop);
        let first = self.num_inserted;
        self.for_each(storage, first..alone, 1, |one: &mut Insertion, node| {
            one.insert(node)
        })?;
        self.for_each(
            storage,
            alone..stop,
            num_threads,
            |one: &mut Insertion, node| one.insert(node),
        )?;
        if stop == num_nodes {
            self.for_each(
                storage,
                0..num_nodes,
                num_threads,
                |one: &mut Insertion, node| one.cut(node),
            )?;
        }
        self.num_inserted = stop;
        Ok(())
    }

    /// Calls a function for each of some nodes, in the order of their insertion.
    fn for_each(
        &self,
        storage: &Storage,
        range: std::ops::Range<usize>,
        num_threads: usize,
        step: impl Fn(&mut Insertion, u32) -> Result<()> + Sync,
    ) -> Result<()> {
        let next = AtomicUsize::new(range.start);
        let work = || {
            let mut insertion = Insertion {
                growing: &self.growing,
                storage,
                arch: Arch::new(),
                walk: Walk::default(),
                ef_construction: self.ef_construction,
            };
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                if place >= range.end {
                    return Ok(());
                }
                if let Some(&node) = self.growing.order.get(place) {
                    step(&mut insertion, node)?;
                }
            }
        };
        in_threads(num_threads, work).map(drop)
    }

    /// Links what cannot be reached, and returns the rows of the graph.
    pub fn finish(self, storage: &Storage) -> Result<Built> {
        let num_nodes = self.growing.require_valid(storage)?;
        let inserted = self.num_inserted;
        ensure(inserted == num_nodes, "inserted nodes", inserted, num_nodes)?;
        self.growing.connect(storage)?;
        self.growing.built()
    }
}

impl Growing {
    fn new(levels: Vec<u8>, m: usize) -> Result<Self> {
        let order = levels::order(&levels);
        let mut ranks = vec![0; order.len()];
        for (rank, &node) in (0u32..).zip(&order) {
            *ranks
                .get_mut(node as usize)
                .ok_or_else(|| out_of_range(NODE))? = rank;
        }
        let mut lists = vec![Lists::new(levels.len(), 2 * m + SPARE)];
        for level in 1..=levels.iter().copied().max().unwrap_or_default() {
            let count = levels.iter().filter(|&&highest| highest >= level).count();
            lists.push(Lists::new(count, m));
        }
        Ok(Self {
            levels,
            order,
            ranks,
            lists,
            m,
        })
    }

    fn require_valid(&self, storage: &Storage) -> Result<usize> {
        let (found, expected) = (storage.require_valid()?, self.levels.len());
        ensure(found == expected, "vectors of a graph", found, expected)?;
        Ok(found)
    }

    fn entry_point(&self) -> Option<u32> {
        self.order.first().copied()
    }

    fn level_of(&self, node: u32) -> Result<usize> {
        let level = self.levels.get(node as usize);
        level
            .map(|&level| usize::from(level))
            .ok_or_else(|| out_of_range(NODE))
    }

    /// The longest list of a level, without the links that `connect` adds.
    fn most(&self, level: usize) -> usize {
        if level == 0 { 2 * self.m } else { self.m }
    }

    /// The longest list of a level while the graph grows.
    fn room(&self, level: usize) -> usize {
        self.most(level) + if level == 0 { SPARE } else { 0 }
    }

    /// The lists of a level, and the number of the list of a node.
    fn place(&self, level: usize, node: u32) -> Option<(&Lists, usize)> {
        let list = if level == 0 {
            node
        } else {
            *self.ranks.get(node as usize)?
        };
        Some((self.lists.get(level)?, list as usize))
    }

    /// Links every node that cannot be reached on level 0 from a node that can.
    fn connect(&self, storage: &Storage) -> Result<()> {
        let (Some(entry_point), Some(lists)) = (self.entry_point(), self.lists.first()) else {
            return Ok(());
        };
        let mut reached = Reached::new(self.levels.len());
        reached.spread(lists, entry_point);
        for node in (0u32..).take(self.levels.len()) {
            if reached.has(node) {
                continue;
            }
            let mut linked = lists.lock(node as usize).map_or_else(Vec::new, |list| {
                list.links()
                    .filter(|link| reached.has(link.node()))
                    .collect()
            });
            linked.sort_unstable();
            let room = |from: u32| {
                let list = lists.lock(from as usize);
                list.is_some_and(|list| list.len() <= self.most(0))
            };
            let near = linked
                .iter()
                .map(|link| link.node())
                .find(|&from| room(from));
            let from = near.or_else(|| reached.last_with(room));
            let from = from.ok_or_else(|| out_of_range(NODE))?;
            let mut distances = Vec::new();
            let scorer = storage.scorer_of(node)?;
            scorer.score(Arch::new(), &[from], &mut distances)?;
            if let (Some(list), Some(&distance)) = (lists.lock(from as usize), distances.first()) {
                list.push(Near::new(distance, node));
            }
            reached.spread(lists, node);
        }
        Ok(())
    }

    fn built(&self) -> Result<Built> {
        let mut rows = Rows::default();
        let mut level_offsets = vec![0];
        rows.offsets.push(0);
        for level in 0..self.lists.len() {
            for (node, &highest) in (0u32..).zip(&self.levels) {
                if usize::from(highest) >= level {
                    self.add_row(level, node, &mut rows)?;
                }
            }
            level_offsets.push(rows.vector_ids.len());
        }
        Ok(Built {
            rows,
            level_offsets,
            entry_point: self.entry_point().unwrap_or_default(),
        })
    }

    fn add_row(&self, level: usize, node: u32, rows: &mut Rows) -> Result<()> {
        let list = self
            .place(level, node)
            .and_then(|(lists, list)| lists.lock(list));
        for link in list.ok_or_else(|| out_of_range(NODE))?.links() {
            rows.neighbors.push(link.node());
            rows.distances.push(link.distance());
        }
        let end = i32::try_from(rows.neighbors.len());
        rows.offsets
            .push(end.map_err(|_| out_of_range("links of a graph"))?);
        rows.vector_ids.push(node);
        Ok(())
    }
}

impl Links for Growing {
    #[inline]
    fn each(&self, level: usize, node: u32, visit: impl FnMut(u32)) {
        if let Some((lists, list)) = self.place(level, node) {
            lists.each(list, visit);
        }
    }

    #[inline]
    fn touch(&self, level: usize, node: u32) {
        if let Some((lists, list)) = self.place(level, node) {
            lists.touch(list);
        }
    }
}

/// What one thread needs to insert nodes.
struct Insertion<'a> {
    growing: &'a Growing,
    storage: &'a Storage<'a>,
    arch: Arch,
    walk: Walk,
    ef_construction: usize,
}

impl Insertion<'_> {
    /// Links a node on all its levels. Other threads see it only after it has all its own links.
    fn insert(&mut self, node: u32) -> Result<()> {
        let growing = self.growing;
        let chosen = match growing.entry_point() {
            Some(entry_point) if entry_point != node => self.choose(node, entry_point)?,
            _ => return Ok(()),
        };
        for (level, links) in chosen.iter().enumerate() {
            if let Some((lists, list)) = growing.place(level, node)
                && let Some(list) = lists.lock(list)
            {
                list.replace(links);
            }
        }
        for (level, links) in chosen.iter().enumerate() {
            for &link in links {
                self.link_back(level, link, node)?;
            }
        }
        Ok(())
    }

    /// Returns the links of a new node on each of its levels.
    fn choose(&mut self, node: u32, entry_point: u32) -> Result<Vec<Vec<Near>>> {
        let scorer = self.storage.scorer_of(node)?;
        let ground = Ground {
            links: self.growing,
            scorer: &scorer,
            num_nodes: self.growing.levels.len(),
            arch: self.arch,
        };
        let highest = self.growing.level_of(node)?;
        let mut near = vec![self.walk.start(&ground, entry_point)?];
        let mut chosen = vec![Vec::new(); highest + 1];
        for level in (0..self.growing.lists.len()).rev() {
            if let Some(links) = chosen.get_mut(level) {
                near = self
                    .walk
                    .beam(&ground, level, &near, self.ef_construction, |_| true)?;
                *links = self.selected(&near, self.growing.m)?;
            } else if let Some(nearest) = near.first_mut() {
                *nearest = self.walk.descend(&ground, level, *nearest)?;
            }
        }
        Ok(chosen)
    }

    /// Adds a link from an older node to a new one.
    fn link_back(&self, level: usize, link: Near, node: u32) -> Result<()> {
        let Some((lists, list)) = self.growing.place(level, link.node()) else {
            return Ok(());
        };
        let Some(list) = lists.lock(list) else {
            return Ok(());
        };
        let back = Near::new(link.distance(), node);
        if list.len() < self.growing.room(level) {
            list.push(back);
            return Ok(());
        }
        let mut links = list.links().chain([back]).collect::<Vec<_>>();
        links.sort_unstable();
        list.replace(&self.selected(&links, self.growing.most(level))?);
        Ok(())
    }

    /// Cuts the list of a node on level 0 to its length.
    fn cut(&mut self, node: u32) -> Result<()> {
        let most = self.growing.most(0);
        let list = self
            .growing
            .place(0, node)
            .and_then(|(lists, list)| lists.lock(list));
        if let Some(list) = list
            && list.len() > most
        {
            let mut links = list.links().collect::<Vec<_>>();
            links.sort_unstable();
            list.replace(&self.selected(&links, most)?);
        }
        Ok(())
    }

    /// Returns up to `most` of some candidates, which ascend, in different directions.
    fn selected(&self, candidates: &[Near], most: usize) -> Result<Vec<Near>> {
        let mut nodes = Vec::with_capacity(most);
        let mut kept = Vec::with_capacity(most);
        let mut others = Vec::new();
        for &candidate in candidates {
            if kept.len() == most {
                break;
            }
            let (node, distance) = (candidate.node(), candidate.distance());
            if !self.storage.any_within(self.arch, node, &nodes, distance)? {
                nodes.push(node);
                kept.push(candidate);
            } else {
                others.push(candidate);
            }
        }
        let room = most - kept.len();
        kept.extend(others.into_iter().take(room));
        Ok(kept)
    }
}

/// The nodes that can be reached from the entry point on level 0.
struct Reached {
    is_reached: Vec<bool>,
    nodes: Vec<u32>,
}

impl Reached {
    fn new(num_nodes: usize) -> Self {
        Self {
            is_reached: vec![false; num_nodes],
            nodes: Vec::new(),
        }
    }

    fn has(&self, node: u32) -> bool {
        self.is_reached.get(node as usize).is_some_and(|&is| is)
    }

    /// Adds a node and all that can be reached from it.
    fn spread(&mut self, lists: &Lists, node: u32) {
        let mut front = vec![node];
        while let Some(node) = front.pop() {
            if let Some(is_reached) = self.is_reached.get_mut(node as usize)
                && !*is_reached
            {
                *is_reached = true;
                self.nodes.push(node);
                lists.each(node as usize, |linked| front.push(linked));
            }
        }
    }

    /// The node that was reached last, of those with room for one more link.
    fn last_with(&mut self, room: impl Fn(u32) -> bool) -> Option<u32> {
        while let Some(&node) = self.nodes.last() {
            if room(node) {
                return Some(node);
            }
            self.nodes.pop();
        }
        None
    }
}
