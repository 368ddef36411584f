//! The search of parts, for example the probed partitions of an index, for the nearest rows.
//!
//! A part is cut into tiles that stay in a cache, and every query goes through a tile before the
//! next one. Rows that are not allowed are left out if there are several of them in a row.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use super::allowed::Allowed;
use super::threads::{Queue, in_threads};
use super::top::{References, Top, Wanted, distance_of, ordered};
use crate::error::{Result, ensure};

/// How many distances are computed at once.
const BLOCK: usize = 256;

/// Rows are looked at ahead if they are at least so many times as many as lead to a limit.
const LEAST_AHEAD: usize = 8;

/// The vectors of a part, or what is stored instead.
pub trait Store: Send + Sync {
    /// How many rows stay in a cache while other queries need them.
    fn rows_per_tile(&self) -> usize;

    /// The length of a gap of rows that are not allowed that is worth leaving out; none if `measure`
    /// leaves them out itself.
    fn gap(&self) -> Option<usize>;

    /// Lists all queries that `begin` selects, in order.
    fn prepare(&mut self, _queries: &[u32]) -> Result<()> {
        Ok(())
    }

    /// Compares several queries, each with its limit, with the rows of a tile, if that is faster
    /// than to measure all of them.
    fn begin_tile(&mut self, _rows: Range<usize>, _queries: &[u32], _limits: &[f32]) -> Result<()> {
        Ok(())
    }

    /// The rows of the tile that may be within the limit of a query of `begin_tile`, by its place
    /// there; none if all have to be measured.
    fn near(&self, _place: usize) -> Option<&[usize]> {
        None
    }

    /// How many rows, at most, are looked at ahead by `promising`.
    fn most_ahead(&self) -> usize {
        1024
    }

    /// Selects the query for `is_beyond`, `promising` and `measure`.
    fn begin(&mut self, query: usize) -> Result<()>;

    /// Whether it is known that all rows are farther from the query than a limit.
    fn is_beyond(&self, _limit: f32) -> bool {
        false
    }

    /// The `count` rows of a tile that seem nearest to the query; none if that is not known early.
    fn promising(&mut self, _rows: Range<usize>, _count: usize) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }

    /// Writes the distances of some rows; NaN may replace those greater than `limit`, and those of
    /// rows that are not allowed.
    fn measure(
        &mut self,
        rows: Range<usize>,
        allowed: Allowed<'_>,
        limit: f32,
        out: &mut [f32],
    ) -> Result<()>;
}

pub struct Part<'a> {
    pub store: Box<dyn Store + 'a>,
    pub num_rows: usize,
    pub references: References<'a>,
    pub allowed: Option<&'a [bool]>,
    /// Numbers of the queries that search it; none: all do.
    pub queries: Option<&'a [u32]>,
}

/// The rows of several queries: where those of each query end, references and distances.
pub struct Answer {
    pub bounds: Vec<i64>,
    pub references: Vec<u64>,
    pub distances: Vec<f32>,
}

/// An answer of an earlier search.
#[derive(Clone, Copy)]
pub struct Earlier<'a> {
    pub bounds: &'a [i64],
    pub references: &'a [u64],
    pub distances: &'a [f32],
}

/// The nearest rows of each query; several threads take the parts one by one.
pub fn nearest(
    parts: Vec<Part<'_>>,
    num_queries: usize,
    wanted: Wanted,
    earlier: Option<Earlier<'_>>,
    num_threads: usize,
) -> Result<Answer> {
    let tops = (0..num_queries).map(|_| Top::new(wanted));
    let mut tops = tops.collect::<Result<Vec<_>>>()?;
    if let Some(earlier) = earlier {
        add_earlier(&mut tops, earlier)?;
    }
    let num_threads = num_threads.min(parts.len());
    if num_threads > 1 {
        for found in together(parts, &tops, wanted, num_threads)? {
            for (top, other) in tops.iter_mut().zip(found) {
                top.absorb(other);
            }
        }
    } else {
        for part in parts {
            search(part, &mut tops)?;
        }
    }
    let mut answer = Answer {
        bounds: vec![0],
        references: Vec::new(),
        distances: Vec::new(),
    };
    for top in tops {
        top.finish(&mut answer.references, &mut answer.distances);
        answer
            .bounds
            .push(answer.references.len().cast_signed() as i64);
    }
    Ok(answer)
}

/// What several threads found; a thread begins each part with the least limits of all threads.
fn together(
    parts: Vec<Part<'_>>,
    tops: &[Top],
    wanted: Wanted,
    num_threads: usize,
) -> Result<Vec<Vec<Top>>> {
    let limits = tops.iter().map(|top| AtomicU32::new(ordered(top.limit())));
    let limits: Vec<AtomicU32> = limits.collect();
    let queue = Queue::new(parts);
    in_threads(num_threads, || {
        let own = limits.iter().map(|_| Top::new(wanted));
        let mut own: Vec<Top> = own.collect::<Result<_>>()?;
        while let Some(part) = queue.next() {
            for (top, limit) in own.iter_mut().zip(&limits) {
                top.restrict(distance_of(limit.load(Ordering::Relaxed)));
            }
            search(part, &mut own)?;
            for (top, limit) in own.iter().zip(&limits) {
                limit.fetch_min(ordered(top.limit()), Ordering::Relaxed);
            }
        }
        Ok(own)
    })
}

fn add_earlier(tops: &mut [Top], earlier: Earlier<'_>) -> Result<()> {
    let count = earlier.bounds.len();
    ensure(
        count == tops.len() + 1,
        "earlier bounds",
        count,
        tops.len() + 1,
    )?;
    let (rows, found) = (earlier.references.len(), earlier.distances.len());
    ensure(rows == found, "earlier distances", found, rows)?;
    for (top, bounds) in tops.iter_mut().zip(earlier.bounds.windows(2)) {
        let place = |bound: Option<&i64>| bound.and_then(|&bound| usize::try_from(bound).ok());
        let own = place(bounds.first()).zip(place(bounds.last()));
        let own = own.and_then(|(start, end)| {
            let references = earlier.references.get(start..end)?;
            Some((references, earlier.distances.get(start..end)?))
        });
        ensure(own.is_some(), "earlier bounds", "others", "ascending ones")?;
        if let Some((references, distances)) = own {
            top.add_found(distances, references);
        }
    }
    Ok(())
}

fn search(mut part: Part<'_>, tops: &mut [Top]) -> Result<()> {
    let rows = part.num_rows;
    let allowed = Allowed::new(part.allowed, rows)?;
    if let References::Listed(all) = part.references {
        ensure(all.len() == rows, "references of rows", all.len(), rows)?;
    }
    let all: Vec<u32> = match part.queries {
        None => (0u32..).take(tops.len()).collect(),
        Some(_) => Vec::new(),
    };
    let queries = part.queries.unwrap_or(&all);
    for &query in queries {
        ensure((query as usize) < tops.len(), "query", query, tops.len())?;
    }
    part.store.prepare(queries)?;
    let step = part.store.rows_per_tile().max(1);
    let mut start = 0;
    while start < rows {
        let tile = start..rows.min(start.saturating_add(step));
        start = tile.end;
        if allowed.run(tile.clone(), 1).is_none() {
            continue;
        }
        if allowed.are_all() {
            let limits = queries.iter().map(|&query| tops.get(query as usize));
            let limits = limits.map(|top| top.map_or(f32::NAN, Top::limit));
            let limits: Vec<f32> = limits.collect();
            part.store.begin_tile(tile.clone(), queries, &limits)?;
        }
        for (place, &query) in queries.iter().enumerate() {
            if let Some(top) = tops.get_mut(query as usize) {
                part.store.begin(query as usize)?;
                if part.store.is_beyond(top.limit()) {
                    continue;
                }
                match part.store.near(place).map(<[usize]>::to_vec) {
                    None => {
                        look_ahead(&mut part, tile.clone(), top)?;
                        search_tile(&mut part, tile.clone(), allowed, top)?;
                    }
                    Some(rows) => search_rows(&mut part, &rows, top)?,
                }
            }
        }
    }
    Ok(())
}

/// Sets a limit by the first rows of a tile that seem nearest, where there is none yet.
fn look_ahead(part: &mut Part<'_>, tile: Range<usize>, top: &mut Top) -> Result<()> {
    let mut ahead = top.emptied();
    let count = ahead.num_needed();
    let most = part.store.most_ahead();
    let rows = tile.start..tile.end.min(tile.start.saturating_add(most));
    let is_small = count.saturating_mul(LEAST_AHEAD) > rows.len();
    if top.limit() < f32::INFINITY || part.allowed.is_some() || is_small {
        return Ok(());
    }
    let rows = part.store.promising(rows, count)?;
    search_rows(part, &rows, &mut ahead)?;
    top.restrict(ahead.limit());
    Ok(())
}

fn search_tile(
    part: &mut Part<'_>,
    tile: Range<usize>,
    allowed: Allowed<'_>,
    top: &mut Top,
) -> Result<()> {
    let mut distances = [0f32; BLOCK];
    let mut next = tile.start;
    while next < tile.end {
        let block = next..tile.end.min(next + BLOCK);
        let run = match part.store.gap() {
            Some(gap) => allowed.run(block.clone(), gap),
            None => allowed.run(block.clone(), 1).map(|_| block.clone()),
        };
        let Some(run) = run else {
            next = block.end;
            continue;
        };
        let (found, _) = distances.split_at_mut(run.len().min(BLOCK));
        part.store
            .measure(run.clone(), allowed, top.limit(), found)?;
        top.add(found, run.start, part.references, allowed);
        next = run.end;
    }
    Ok(())
}

fn search_rows(part: &mut Part<'_>, rows: &[usize], top: &mut Top) -> Result<()> {
    let all = Allowed::ALL;
    for &row in rows {
        let mut distance = [0.0];
        part.store
            .measure(row..row + 1, all, top.limit(), &mut distance)?;
        top.add(&distance, row, part.references, all);
    }
    Ok(())
}
