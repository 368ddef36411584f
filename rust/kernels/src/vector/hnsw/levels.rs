//! The level of each node: geometric, from a generator with a fixed seed.

const SEED: u64 = 42;

/// Returns the highest level of each node: `floor(-ln U / ln m)`, less than `max_level`.
pub fn draw(num_nodes: u32, m: usize, max_level: u8) -> Vec<u8> {
    let mut state = SEED;
    (0..num_nodes)
        .map(|_| {
            let level = -uniform(&mut state).ln() / base(m);
            clamped(level, max_level.saturating_sub(1))
        })
        .collect()
}

/// Returns the nodes by descending level, then ascending id.
pub fn order(levels: &[u8]) -> Vec<u32> {
    let mut nodes = (0u32..).take(levels.len()).collect::<Vec<_>>();
    nodes.sort_by_key(|&node| std::cmp::Reverse(levels.get(node as usize).copied()));
    nodes
}

#[allow(clippy::cast_precision_loss)]
fn base(m: usize) -> f64 {
    (m as f64).ln()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn clamped(level: f64, most: u8) -> u8 {
    level.clamp(0.0, f64::from(most)) as u8
}

/// A number in (0, 1] (SplitMix64).
#[allow(clippy::cast_precision_loss)]
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    ((mixed >> 11) + 1) as f64 / (1u64 << 53) as f64
}
