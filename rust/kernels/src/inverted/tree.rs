//! A query as a tree over its tokens: which documents match, given the scores of the tokens.
//!
//!     must(fox) should(quick | "brown dog")      tokens    0 fox  1 quick  2 brown  3 dog
//!     scores of a document   2.1 - 0.8 1.0  ──▶  2.1 + 1.8, if the phrase is in the document
//!
//! Tokens that only exclude documents or lower their scores are not among these: such clauses are
//! tested last, as the positions of phrases are, and only in documents that may be of use.

use super::clause::{Alternatives, Clause, Node};
use super::cursor::{Cursor, Decoded, total};
use super::documents::DocumentSet;
use super::norms::Norms;
use super::phrase::Test;
use crate::error::Result;

/// The score and the bound of a token that is not in a document, or in no document of a window.
pub const ABSENT: f32 = -1.0;

/// A token that adds to scores.
pub struct Leaf<'a> {
    pub cursor: Box<Cursor<'a>>,
    /// What its scores are multiplied by.
    pub factor: f64,
    /// Whether every match contains it.
    pub is_required: bool,
}

impl Leaf<'_> {
    /// About how many documents it has.
    pub fn cost(&self) -> usize {
        self.cursor.cost()
    }

    /// The documents with the greatest scores, in their order; none of a short list.
    #[allow(clippy::cast_possible_truncation)]
    pub fn heavy(&self) -> impl Iterator<Item = (u32, f32)> {
        let (heavy, factor) = (self.cursor.heavy(), self.factor as f32);
        heavy.map(move |(document, score)| (document, factor * score))
    }
}

/// A query, or a part of it.
pub enum Tree<'a> {
    Token(usize),
    Any(Vec<Tree<'a>>),
    All(Vec<Tree<'a>>),
    /// The tokens of each word, and the test of their positions.
    Phrase(Vec<Vec<usize>>, Box<Test<'a>>),
    Boolean {
        required: Box<Tree<'a>>,
        optional: Vec<Tree<'a>>,
        excluded: Vec<Node<'a>>,
    },
    Scaled(Box<Tree<'a>>, f32),
    Less {
        positive: Box<Tree<'a>>,
        negative: Box<Node<'a>>,
        factor: f32,
    },
}

impl<'a> Tree<'a> {
    /// The tree of a clause and its tokens; none if some of its scores may not be positive.
    pub fn of(clause: &'a Clause, norms: &'a Norms) -> Result<Option<(Self, Vec<Leaf<'a>>)>> {
        let mut leaves = Vec::new();
        let mut maker = Maker {
            norms,
            leaves: &mut leaves,
        };
        let tree = maker.tree(clause, 1.0, true)?;
        Ok(tree.map(|tree| (tree, leaves)))
    }

    /// Whether a document that has all tokens may not match after all, or with another score.
    pub fn has_tests(&self) -> bool {
        let any = |of: &[Self]| of.iter().any(Self::has_tests);
        match self {
            Self::Token(_) => false,
            Self::Any(of) | Self::All(of) => any(of),
            Self::Phrase(..) | Self::Less { .. } => true,
            Self::Boolean {
                required,
                optional,
                excluded,
            } => !excluded.is_empty() || required.has_tests() || any(optional),
            Self::Scaled(tree, _) => tree.has_tests(),
        }
    }

    /// How many operations on scores a score is the result of, at most.
    pub fn operations(&self) -> usize {
        let sum = |of: &[Self]| of.iter().map(Self::operations).sum::<usize>();
        match self {
            Self::Token(_) => 1,
            Self::Any(of) | Self::All(of) => sum(of),
            Self::Phrase(words, _) => words.iter().map(Vec::len).sum(),
            Self::Boolean {
                required, optional, ..
            } => required.operations() + sum(optional),
            Self::Scaled(tree, _) => 1 + tree.operations(),
            Self::Less { positive, .. } => 1 + positive.operations(),
        }
    }

    /// Tokens of which every match contains at least one: those with the fewest documents.
    pub fn drivers(&self, leaves: &[Leaf<'_>]) -> Vec<usize> {
        let rarest = |sets: Vec<Vec<usize>>| {
            let least = sets.into_iter().min_by_key(|set| cost(set, leaves));
            least.unwrap_or_default()
        };
        match self {
            Self::Token(leaf) => vec![*leaf],
            Self::Any(of) => of.iter().flat_map(|one| one.drivers(leaves)).collect(),
            Self::All(of) => rarest(of.iter().map(|one| one.drivers(leaves)).collect()),
            Self::Phrase(words, _) => rarest(words.clone()),
            Self::Boolean { required, .. } => required.drivers(leaves),
            Self::Scaled(tree, _) => tree.drivers(leaves),
            Self::Less { positive, .. } => positive.drivers(leaves),
        }
    }

    /// A score that `k` documents reach by a single token, as far as it is known.
    pub fn reached_by(
        &self,
        k: usize,
        allowed: Option<&DocumentSet>,
        leaves: &[Leaf<'_>],
    ) -> Option<f32> {
        let alone = |tree: &Self| tree.reached_by(k, allowed, leaves);
        match self {
            Self::Token(leaf) => leaves.get(*leaf)?.cursor.reached_by(k, allowed),
            Self::Any(of) => of.iter().filter_map(alone).max_by(f32::total_cmp),
            Self::All(of) => match of.as_slice() {
                [one] => alone(one),
                _ => None,
            },
            Self::Boolean {
                required, excluded, ..
            } if excluded.is_empty() => alone(required),
            Self::Scaled(tree, factor) => alone(tree).map(|score| score * factor),
            Self::Phrase(..) | Self::Boolean { .. } | Self::Less { .. } => None,
        }
    }

    /// The greatest score, up to rounding, given those of the tokens; `ABSENT` if there is none.
    pub fn bound(&self, bounds: &[f64]) -> f64 {
        let absent = f64::from(ABSENT);
        let add = |sum, one| (one >= 0.0).then_some(sum + one);
        let of_token = |leaf: &usize| bounds.get(*leaf).copied().unwrap_or(absent);
        let found = match self {
            Self::Token(leaf) => Some(of_token(leaf)),
            Self::Any(of) => {
                let present = of.iter().map(|one| one.bound(bounds));
                present.filter(|one| *one >= 0.0).reduce(|a, b| a + b)
            }
            Self::All(of) => of.iter().map(|one| one.bound(bounds)).try_fold(0.0, add),
            Self::Phrase(words, _) => {
                let of_word = |word: &Vec<usize>| {
                    let present = word.iter().map(of_token).filter(|one| *one >= 0.0);
                    present.reduce(|a, b| a + b).unwrap_or(absent)
                };
                words.iter().map(of_word).try_fold(0.0, add)
            }
            Self::Boolean {
                required, optional, ..
            } => {
                let more = optional.iter().map(|one| one.bound(bounds).max(0.0));
                let least = required.bound(bounds);
                (least >= 0.0).then(|| least + more.sum::<f64>())
            }
            Self::Scaled(tree, _) => Some(tree.bound(bounds)),
            Self::Less { positive, .. } => Some(positive.bound(bounds)),
        };
        found.unwrap_or(absent)
    }

    /// The score of a document, given those of its tokens; none if it does not match.
    ///
    /// Without the number of the document, all tests are taken to be passed, which gives the
    /// greatest score that it may have. Documents are tested in ascending order.
    pub fn score(&mut self, scores: &[f32], document: Option<u32>) -> Result<Option<f32>> {
        let of_token = |leaf: &usize| scores.get(*leaf).copied().filter(|score| *score >= 0.0);
        Ok(match self {
            Self::Token(leaf) => of_token(leaf),
            Self::Any(of) => {
                let (mut sum, mut is_match) = (0f32, false);
                for one in of {
                    if let Some(score) = one.score(scores, document)? {
                        sum += score;
                        is_match = true;
                    }
                }
                is_match.then_some(sum)
            }
            Self::All(of) => {
                let mut sum = 0f32;
                for one in of {
                    match one.score(scores, document)? {
                        Some(score) => sum += score,
                        None => return Ok(None),
                    }
                }
                Some(sum)
            }
            Self::Phrase(words, test) => {
                let mut sum = 0f32;
                for word in &*words {
                    match word.iter().filter_map(of_token).reduce(|a, b| a + b) {
                        Some(score) => sum += score,
                        None => return Ok(None),
                    }
                }
                let is_match = match document {
                    None => true,
                    Some(document) => test.is_in(document)?,
                };
                is_match.then_some(sum)
            }
            Self::Boolean {
                required,
                optional,
                excluded,
            } => {
                let Some(least) = required.score(scores, document)? else {
                    return Ok(None);
                };
                let mut more = 0f32;
                for one in optional {
                    if let Some(score) = one.score(scores, document)? {
                        more += score;
                    }
                }
                if let Some(document) = document {
                    for node in excluded {
                        if node.advance(document)? == document {
                            return Ok(None);
                        }
                    }
                }
                Some(least + more)
            }
            Self::Scaled(tree, factor) => {
                let score = tree.score(scores, document)?;
                score.map(|score| score * *factor)
            }
            Self::Less {
                positive,
                negative,
                factor,
            } => {
                let Some(score) = positive.score(scores, document)? else {
                    return Ok(None);
                };
                match document {
                    Some(document) if negative.advance(document)? == document => {
                        Some(score - *factor * negative.score()?)
                    }
                    _ => Some(score),
                }
            }
        })
    }

    /// The blocks that the tests decoded so far.
    pub fn decoded(&self) -> Decoded {
        let sum = |of: &[Self]| total(of.iter().map(Self::decoded));
        match self {
            Self::Token(_) => Decoded::default(),
            Self::Any(of) | Self::All(of) => sum(of),
            Self::Phrase(_, test) => test.decoded(),
            Self::Boolean {
                required,
                optional,
                excluded,
            } => {
                let mut found = required.decoded();
                found += sum(optional);
                found += total(excluded.iter().map(Node::decoded));
                found
            }
            Self::Scaled(tree, _) => tree.decoded(),
            Self::Less {
                positive, negative, ..
            } => {
                let mut found = positive.decoded();
                found += negative.decoded();
                found
            }
        }
    }
}

/// About how many documents some tokens have.
pub fn cost(set: &[usize], leaves: &[Leaf<'_>]) -> usize {
    let own = set.iter().filter_map(|leaf| leaves.get(*leaf));
    own.map(Leaf::cost).sum()
}

/// Makes a tree and collects its tokens.
struct Maker<'a, 'l> {
    norms: &'a Norms,
    leaves: &'l mut Vec<Leaf<'a>>,
}

impl<'a> Maker<'a, '_> {
    /// The tree of a clause with scores that are multiplied by a factor.
    fn tree(
        &mut self,
        clause: &'a Clause,
        factor: f64,
        is_required: bool,
    ) -> Result<Option<Tree<'a>>> {
        Ok(match clause {
            Clause::Token(list, idf) => {
                let cursor = Cursor::new(list, *idf, self.norms);
                Some(Tree::Token(self.leaf(cursor, factor, is_required)))
            }
            Clause::Any(of) => {
                let is_required = is_required && of.len() == 1;
                self.trees(of, factor, is_required)?.map(Tree::Any)
            }
            Clause::All(of) => self.trees(of, factor, is_required)?.map(Tree::All),
            Clause::Phrase(words, slop) => {
                let tested = words.iter().map(|word| word.begin(self.norms)).collect();
                let positions = words.iter().map(|word| word.position).collect();
                let own = words.iter();
                let own = own.map(|word| self.word(word, factor, is_required));
                let own = own.collect();
                let test = Test::new(tested, positions, *slop);
                Some(Tree::Phrase(own, Box::new(test)))
            }
            Clause::Boolean {
                must,
                should,
                must_not,
            } => self.boolean((must, should, must_not), factor, is_required)?,
            Clause::Scaled(inner, own) => {
                if *own <= 0.0 {
                    return Ok(None);
                }
                let inner = self.tree(inner, factor * f64::from(*own), is_required)?;
                inner.map(|inner| Tree::Scaled(Box::new(inner), *own))
            }
            Clause::Less {
                positive,
                negative,
                factor: own,
            } => {
                let negative = negative.begin(self.norms)?;
                if *own < 0.0 || negative.can_be_negative() {
                    return Ok(None);
                }
                let positive = self.tree(positive, factor, is_required)?;
                positive.map(|positive| Tree::Less {
                    positive: Box::new(positive),
                    negative: Box::new(negative),
                    factor: *own,
                })
            }
        })
    }

    fn boolean(
        &mut self,
        (must, should, must_not): (&'a [Shared], &'a [Shared], &'a [Shared]),
        factor: f64,
        is_required: bool,
    ) -> Result<Option<Tree<'a>>> {
        let (required, optional) = if must.is_empty() {
            let is_required = is_required && should.len() == 1;
            let any = self.trees(should, factor, is_required)?.map(Tree::Any);
            (any, Some(Vec::new()))
        } else {
            let all = self.trees(must, factor, is_required)?.map(Tree::All);
            (all, self.trees(should, factor, false)?)
        };
        let excluded = must_not.iter().map(|clause| clause.begin(self.norms));
        let excluded = excluded.collect::<Result<Vec<_>>>()?;
        let (Some(required), Some(optional)) = (required, optional) else {
            return Ok(None);
        };
        Ok(Some(Tree::Boolean {
            required: Box::new(required),
            optional,
            excluded,
        }))
    }

    fn trees(
        &mut self,
        clauses: &'a [Shared],
        factor: f64,
        is_required: bool,
    ) -> Result<Option<Vec<Tree<'a>>>> {
        let made = clauses
            .iter()
            .map(|clause| self.tree(clause, factor, is_required));
        made.collect()
    }

    /// The leaves of the tokens of a word.
    fn word(&mut self, word: &'a Alternatives, factor: f64, is_required: bool) -> Vec<usize> {
        let is_required = is_required && word.tokens.len() == 1;
        let tokens = word.tokens.iter();
        let cursors = tokens.map(|(list, idf)| Cursor::new(list, *idf, self.norms));
        let cursors: Vec<_> = cursors.collect();
        let leaves = cursors.into_iter();
        leaves
            .map(|cursor| self.leaf(cursor, factor, is_required))
            .collect()
    }

    fn leaf(&mut self, cursor: Cursor<'a>, factor: f64, is_required: bool) -> usize {
        self.leaves.push(Leaf {
            cursor: Box::new(cursor),
            factor,
            is_required,
        });
        self.leaves.len() - 1
    }
}

type Shared = std::sync::Arc<Clause>;
