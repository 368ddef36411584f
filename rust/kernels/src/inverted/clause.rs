//! Queries as trees, and a place in the documents that they match.
//!
//!     Token     the documents of a posting list             score idf * weight
//!     Any       those of any clause                         sum of those that match
//!     All       those of all clauses                        sum
//!     Phrase    those with words one after another          sum of their tokens
//!     Boolean   those of `must`, or of any of `should`,     sum of those that match
//!               without those of `must_not`
//!     Scaled    the same documents                          score * factor
//!     Less      those of `positive`                         positive - factor * negative
//!
//! Sums are added in the order of the query, since the last bit of a score depends on it.

use std::sync::Arc;

use super::common::first_common;
use super::cursor::{Cursor, Decoded, total};
use super::documents::END;
use super::norms::Norms;
use super::phrase::Phrase;
use super::phrase_word::Word;
use super::posting::Posting;
use crate::error::Result;

/// A query of one partition.
pub enum Clause {
    Token(Arc<Posting>, f32),
    Any(Vec<Arc<Clause>>),
    All(Vec<Arc<Clause>>),
    /// Words, and slop.
    Phrase(Vec<Alternatives>, u32),
    Boolean {
        must: Vec<Arc<Clause>>,
        should: Vec<Arc<Clause>>,
        must_not: Vec<Arc<Clause>>,
    },
    Scaled(Arc<Clause>, f32),
    Less {
        positive: Arc<Clause>,
        negative: Arc<Clause>,
        factor: f32,
    },
}

/// A word of a phrase: the lists and idf of its tokens, of which any matches.
pub struct Alternatives {
    pub tokens: Vec<(Arc<Posting>, f32)>,
    /// The position in the query.
    pub position: u32,
}

impl Alternatives {
    /// Begins at the first document.
    pub fn begin<'a>(&'a self, norms: &'a Norms) -> Word<'a> {
        let tokens = self.tokens.iter();
        Word::new(
            tokens
                .map(|(list, idf)| Cursor::new(list, *idf, norms))
                .collect(),
        )
    }
}

impl Clause {
    /// Begins at the first document.
    pub fn begin<'a>(&'a self, norms: &'a Norms) -> Result<Node<'a>> {
        let all = |clauses: &'a [Arc<Self>]| {
            let nodes = clauses.iter().map(|clause| clause.begin(norms));
            nodes.collect::<Result<Vec<_>>>()
        };
        Ok(match self {
            Self::Token(list, idf) => Node::Token(Box::new(Cursor::new(list, *idf, norms))),
            Self::Any(clauses) => Node::Any(Any::new(all(clauses)?)),
            Self::All(clauses) => Node::All(All::new(all(clauses)?)?),
            Self::Phrase(words, slop) => {
                let positions = words.iter().map(|word| word.position).collect();
                let words = words.iter().map(|word| word.begin(norms)).collect();
                Node::Phrase(Phrase::new(words, positions, *slop)?)
            }
            Self::Boolean {
                must,
                should,
                must_not,
            } => Node::Boolean(Boolean::new(all(must)?, all(should)?, all(must_not)?)?),
            Self::Scaled(clause, factor) => Node::Scaled(Box::new(clause.begin(norms)?), *factor),
            Self::Less {
                positive,
                negative,
                factor,
            } => Node::Less(Box::new(Less {
                positive: positive.begin(norms)?,
                negative: negative.begin(norms)?,
                factor: *factor,
            })),
        })
    }
}

/// A place in the documents of a clause, which only moves forward.
///
/// Bounds are asked for ascending starts. A document that was passed is never asked for again.
pub enum Node<'a> {
    Token(Box<Cursor<'a>>),
    Any(Any<'a>),
    All(All<'a>),
    Phrase(Phrase<'a>),
    Boolean(Boolean<'a>),
    Scaled(Box<Node<'a>>, f32),
    Less(Box<Less<'a>>),
}

impl Node<'_> {
    /// About how many documents there are.
    pub fn cost(&self) -> usize {
        match self {
            Self::Token(cursor) => cursor.cost(),
            Self::Any(any) => any.nodes.iter().map(Node::cost).sum(),
            Self::All(all) => all.nodes.iter().map(Node::cost).min().unwrap_or(0),
            Self::Phrase(phrase) => phrase.cost(),
            Self::Boolean(boolean) => boolean.required.cost(),
            Self::Scaled(node, _) => node.cost(),
            Self::Less(less) => less.positive.cost(),
        }
    }

    /// The blocks that were decoded so far.
    pub fn decoded(&self) -> Decoded {
        let sum = |nodes: &[Node<'_>]| total(nodes.iter().map(Node::decoded));
        match self {
            Self::Token(cursor) => cursor.decoded(),
            Self::Any(any) => sum(&any.nodes),
            Self::All(all) => sum(&all.nodes),
            Self::Phrase(phrase) => phrase.decoded(),
            Self::Boolean(boolean) => {
                let mut found = boolean.required.decoded();
                found += sum(&boolean.optional);
                found += sum(&boolean.excluded);
                found
            }
            Self::Scaled(node, _) => node.decoded(),
            Self::Less(less) => {
                let mut found = less.positive.decoded();
                found += less.negative.decoded();
                found
            }
        }
    }

    /// How many scores a score is the sum of, at most.
    pub fn terms(&self) -> usize {
        let sum = |nodes: &[Node<'_>]| nodes.iter().map(Node::terms).sum();
        match self {
            Self::Token(_) => 1,
            Self::Any(any) => sum(&any.nodes),
            Self::All(all) => sum(&all.nodes),
            Self::Phrase(phrase) => phrase.terms(),
            Self::Boolean(boolean) => boolean.required.terms() + sum(&boolean.optional),
            Self::Scaled(node, _) => 1 + node.terms(),
            Self::Less(less) => 1 + less.positive.terms(),
        }
    }

    /// The document; `END` after the last one.
    #[inline]
    pub fn document(&self) -> u32 {
        match self {
            Self::Token(cursor) => cursor.document(),
            Self::Any(any) => any.document,
            Self::All(all) => all.document,
            Self::Phrase(phrase) => phrase.document(),
            Self::Boolean(boolean) => boolean.required.document(),
            Self::Scaled(node, _) => node.document(),
            Self::Less(less) => less.positive.document(),
        }
    }

    /// Moves to the first document that is not before `target`.
    #[inline]
    pub fn advance(&mut self, target: u32) -> Result<u32> {
        match self {
            Self::Token(cursor) => cursor.advance(target),
            Self::Any(any) => any.advance(target),
            Self::All(all) => all.advance(target),
            Self::Phrase(phrase) => phrase.advance(target),
            Self::Boolean(boolean) => boolean.advance(target),
            Self::Scaled(node, _) => node.advance(target),
            Self::Less(less) => less.positive.advance(target),
        }
    }

    /// The score of the document.
    #[inline]
    pub fn score(&mut self) -> Result<f32> {
        match self {
            Self::Token(cursor) => cursor.score(),
            Self::Any(any) => any.score(),
            Self::All(all) => sum_of(&mut all.nodes),
            Self::Phrase(phrase) => phrase.score(),
            Self::Boolean(boolean) => boolean.score(),
            Self::Scaled(node, factor) => Ok(node.score()? * *factor),
            Self::Less(less) => less.score(),
        }
    }

    /// A document up to which a bound from `low` on is worth computing.
    #[inline]
    pub fn until(&mut self, low: u32) -> u32 {
        match self {
            Self::Token(cursor) => cursor.until(low),
            Self::Any(any) => {
                let ends = any.nodes.iter_mut().map(|node| node.until(low));
                ends.min().unwrap_or(END - 1)
            }
            Self::All(all) => all.until(low),
            Self::Phrase(phrase) => phrase.until(low),
            Self::Boolean(boolean) => boolean.required.until(low),
            Self::Scaled(node, _) => node.until(low),
            Self::Less(less) => less.positive.until(low),
        }
    }

    /// A score that no document from `low` to `high` exceeds, up to rounding.
    #[inline]
    pub fn bound(&mut self, low: u32, high: u32) -> f64 {
        match self {
            Self::Token(cursor) => cursor.bound(low, high),
            Self::Any(any) => sum_of_bounds(&mut any.nodes, low, high),
            Self::All(all) => sum_of_bounds(&mut all.nodes, low, high),
            Self::Phrase(phrase) => phrase.bound(low, high),
            Self::Boolean(boolean) => {
                boolean.required.bound(low, high)
                    + sum_of_bounds(&mut boolean.optional, low, high).max(0.0)
            }
            Self::Scaled(node, factor) if *factor >= 0.0 => {
                node.bound(low, high) * f64::from(*factor)
            }
            Self::Less(less) if less.factor >= 0.0 && !less.negative.can_be_negative() => {
                less.positive.bound(low, high)
            }
            Self::Scaled(..) | Self::Less(_) => f64::INFINITY,
        }
    }

    /// Whether there can be scores below 0.
    pub fn can_be_negative(&self) -> bool {
        let any = |nodes: &[Node<'_>]| nodes.iter().any(Node::can_be_negative);
        match self {
            Self::Token(_) | Self::Phrase(_) => false,
            Self::Any(of) => any(&of.nodes),
            Self::All(all) => any(&all.nodes),
            Self::Boolean(boolean) => boolean.required.can_be_negative() || any(&boolean.optional),
            Self::Scaled(node, factor) => *factor < 0.0 || node.can_be_negative(),
            Self::Less(_) => true,
        }
    }
}

fn sum_of(nodes: &mut [Node<'_>]) -> Result<f32> {
    let mut sum = 0f32;
    for node in nodes {
        sum += node.score()?;
    }
    Ok(sum)
}

/// Adds bounds; a clause that does not match adds nothing, whatever its bound is.
fn sum_of_bounds(nodes: &mut [Node<'_>], low: u32, high: u32) -> f64 {
    let bounds = nodes.iter_mut().map(|node| node.bound(low, high).max(0.0));
    bounds.sum()
}

/// The documents of any of some nodes.
pub struct Any<'a> {
    pub nodes: Vec<Node<'a>>,
    document: u32,
}

impl<'a> Any<'a> {
    fn new(nodes: Vec<Node<'a>>) -> Self {
        let document = nodes.iter().map(Node::document).min().unwrap_or(END);
        Self { nodes, document }
    }

    fn advance(&mut self, target: u32) -> Result<u32> {
        if self.document < target {
            let mut next = END;
            for node in &mut self.nodes {
                next = next.min(node.advance(target)?);
            }
            self.document = next;
        }
        Ok(self.document)
    }

    fn score(&mut self) -> Result<f32> {
        let mut sum = 0f32;
        for node in &mut self.nodes {
            if node.document() == self.document {
                sum += node.score()?;
            }
        }
        Ok(sum)
    }
}

/// The documents of all of some nodes.
pub struct All<'a> {
    nodes: Vec<Node<'a>>,
    /// Nodes by the number of their documents: the one with the fewest first.
    order: Vec<usize>,
    document: u32,
}

impl<'a> All<'a> {
    fn new(nodes: Vec<Node<'a>>) -> Result<Self> {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|&i| nodes.get(i).map(Node::cost));
        let mut all = Self {
            nodes,
            order,
            document: END,
        };
        if !all.nodes.is_empty() {
            all.document = all.find(0)?;
        }
        Ok(all)
    }

    fn advance(&mut self, target: u32) -> Result<u32> {
        if self.document < target {
            self.document = self.find(target)?;
        }
        Ok(self.document)
    }

    fn until(&mut self, low: u32) -> u32 {
        let first = self.order.first().and_then(|&i| self.nodes.get_mut(i));
        first.map_or(END - 1, |node| node.until(low))
    }

    fn find(&mut self, target: u32) -> Result<u32> {
        first_common(&mut self.nodes, &self.order, target, Node::advance)
    }
}

/// The documents of a required node, without those of others.
pub struct Boolean<'a> {
    required: Box<Node<'a>>,
    optional: Vec<Node<'a>>,
    excluded: Vec<Node<'a>>,
}

impl<'a> Boolean<'a> {
    fn new(must: Vec<Node<'a>>, should: Vec<Node<'a>>, excluded: Vec<Node<'a>>) -> Result<Self> {
        let (required, optional) = if must.is_empty() {
            (Node::Any(Any::new(should)), Vec::new())
        } else {
            (Node::All(All::new(must)?), should)
        };
        let mut boolean = Self {
            required: Box::new(required),
            optional,
            excluded,
        };
        boolean.skip_excluded()?;
        Ok(boolean)
    }

    fn advance(&mut self, target: u32) -> Result<u32> {
        if self.required.document() < target {
            self.required.advance(target)?;
            self.skip_excluded()?;
        }
        Ok(self.required.document())
    }

    fn skip_excluded(&mut self) -> Result<()> {
        'again: loop {
            let document = self.required.document();
            if document == END {
                return Ok(());
            }
            for node in &mut self.excluded {
                if node.advance(document)? == document {
                    self.required.advance(document + 1)?;
                    continue 'again;
                }
            }
            return Ok(());
        }
    }

    fn score(&mut self) -> Result<f32> {
        let document = self.required.document();
        let mut more = 0f32;
        for node in &mut self.optional {
            if node.advance(document)? == document {
                more += node.score()?;
            }
        }
        Ok(self.required.score()? + more)
    }
}

/// The documents of a node, with scores that another one lowers.
pub struct Less<'a> {
    positive: Node<'a>,
    negative: Node<'a>,
    factor: f32,
}

impl Less<'_> {
    fn score(&mut self) -> Result<f32> {
        let document = self.positive.document();
        let score = self.positive.score()?;
        if self.negative.advance(document)? != document {
            return Ok(score);
        }
        Ok(score - self.factor * self.negative.score()?)
    }
}
