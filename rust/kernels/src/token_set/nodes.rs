//! Nodes of the graph, read downwards from their last byte, the state.
//!
//!     11cccccc   one transition without output, to the node that ends right before this one
//!     10cccccc   one transition: [input] sizes delta output
//!     0fnnnnnn   n transitions, f if final: [n] sizes [256 bytes] inputs deltas outputs [final output]
//!
//! `c` is an entry of `COMMON`, or 0 if the input is the next byte; `n` is 0 if the number is the
//! next byte, in which 1 means 256. `sizes` has the bytes of a delta and, in its lower half, those
//! of an output. The index of 256 bytes is there for more than 32 transitions. A delta is the
//! distance from the first byte of the node to the last one of its target; 0 means the final node
//! without transitions, at address 0. Elements of arrays are stored in descending order.

use crate::error::{Corrupt, Result, out_of_range, part};

const COMMON: &[u8; 63] = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";
/// Where nodes begin.
const FIRST: usize = super::HEADER;
const INDEX_FROM: usize = 33;

/// A transition.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub input: u8,
    pub output: u64,
    pub target: usize,
}

/// A node of the graph.
#[derive(Debug)]
pub struct Node<'a> {
    pub is_final: bool,
    pub final_output: u64,
    steps: Steps<'a>,
}

#[derive(Debug)]
enum Steps<'a> {
    One(Step),
    /// Arrays in ascending order of addresses, so the first element is the last one.
    Many {
        inputs: &'a [u8],
        deltas: &'a [u8],
        outputs: &'a [u8],
        sizes: Sizes,
        first: usize,
    },
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    delta: usize,
    output: usize,
}

impl<'a> Node<'a> {
    /// The node whose last byte is at an address.
    pub fn at(data: &'a [u8], address: usize) -> Result<Self> {
        if address == 0 {
            return Ok(Self {
                is_final: true,
                final_output: 0,
                steps: many_of(
                    &[],
                    &[],
                    &[],
                    Sizes {
                        delta: 0,
                        output: 0,
                    },
                    0,
                ),
            });
        }
        let mut down = Down { data, at: address };
        let state = match down.data.get(address) {
            Some(&state) if address >= FIRST => state,
            _ => return Err(Corrupt(format!("token set: no node at {address}"))),
        };
        if state & 0x80 == 0 {
            return Self::many(state, &mut down);
        }
        let input = match usize::from(state & 0x3f).checked_sub(1) {
            Some(common) => COMMON.get(common).copied(),
            None => Some(down.byte()?),
        };
        let input = input.ok_or_else(|| out_of_range("common input"))?;
        let (output, target) = if state & 0x40 != 0 {
            (0, down.at.checked_sub(1))
        } else {
            let sizes = down.sizes()?;
            let delta = number(down.take(sizes.delta)?);
            let output = number(down.take(sizes.output)?);
            (output, target(down.at, delta))
        };
        let step = Step {
            input,
            output,
            target: target.ok_or_else(|| out_of_range("target of a node"))?,
        };
        Ok(Self {
            is_final: false,
            final_output: 0,
            steps: Steps::One(step),
        })
    }

    fn many(state: u8, down: &mut Down<'a>) -> Result<Self> {
        let is_final = state & 0x40 != 0;
        let count = match usize::from(state & 0x3f) {
            0 => match down.byte()? {
                1 => 256,
                count => usize::from(count),
            },
            count => count,
        };
        let sizes = down.sizes()?;
        if count >= INDEX_FROM {
            down.take(256)?;
        }
        let inputs = down.take(count)?;
        let deltas = down.take(count * sizes.delta)?;
        let outputs = down.take(count * sizes.output)?;
        let final_output = if is_final {
            number(down.take(sizes.output)?)
        } else {
            0
        };
        Ok(Self {
            is_final,
            final_output,
            steps: many_of(inputs, deltas, outputs, sizes, down.at),
        })
    }

    /// How many transitions there are.
    pub fn len(&self) -> usize {
        match &self.steps {
            Steps::One(_) => 1,
            Steps::Many { inputs, .. } => inputs.len(),
        }
    }

    /// A transition, in the order of the inputs.
    pub fn step(&self, at: usize) -> Result<Step> {
        match &self.steps {
            Steps::One(step) => Ok(*step),
            Steps::Many {
                inputs,
                deltas,
                outputs,
                sizes,
                first,
            } => {
                let place = inputs.len().checked_sub(at + 1);
                let place = place.ok_or_else(|| out_of_range("transition"))?;
                let [input] = *part(inputs, place, 1, "input")? else {
                    return Err(out_of_range("input"));
                };
                let delta = part(deltas, place * sizes.delta, sizes.delta, "delta")?;
                let output = part(outputs, place * sizes.output, sizes.output, "output")?;
                let target = target(*first, number(delta));
                Ok(Step {
                    input,
                    output: number(output),
                    target: target.ok_or_else(|| out_of_range("target of a node"))?,
                })
            }
        }
    }

    /// The transition of an input.
    pub fn find(&self, input: u8) -> Result<Option<Step>> {
        match &self.steps {
            Steps::One(step) => Ok((step.input == input).then_some(*step)),
            Steps::Many { inputs, .. } => {
                // Inputs are stored in descending order.
                let found = inputs.binary_search_by(|stored| input.cmp(stored));
                let at = found.ok().map(|place| inputs.len() - 1 - place);
                at.map(|at| self.step(at)).transpose()
            }
        }
    }
}

fn many_of<'a>(
    inputs: &'a [u8],
    deltas: &'a [u8],
    outputs: &'a [u8],
    sizes: Sizes,
    first: usize,
) -> Steps<'a> {
    Steps::Many {
        inputs,
        deltas,
        outputs,
        sizes,
        first,
    }
}

/// The address that is `delta` before the first byte of a node.
fn target(first: usize, delta: u64) -> Option<usize> {
    match usize::try_from(delta).ok()? {
        0 => Some(0),
        delta => first.checked_sub(delta),
    }
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Reads downwards, beginning below `at`.
struct Down<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Down<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let start = self.at.checked_sub(count).filter(|start| *start >= FIRST);
        let start = start.ok_or_else(|| out_of_range("node of the token set"))?;
        self.at = start;
        part(self.data, start, count, "node of the token set")
    }

    fn byte(&mut self) -> Result<u8> {
        self.take(1)?
            .first()
            .copied()
            .ok_or_else(|| out_of_range("node of the token set"))
    }

    fn sizes(&mut self) -> Result<Sizes> {
        let sizes = self.byte()?;
        let (delta, output) = (usize::from(sizes >> 4), usize::from(sizes & 0xf));
        if delta > 8 || output > 8 {
            return Err(Corrupt(format!(
                "token set: numbers of {delta} and {output} bytes"
            )));
        }
        Ok(Sizes { delta, output })
    }
}
