//! Patterns `ab%cd%ef`: texts with a prefix, parts in this order, and a suffix.

use memchr::memmem::Finder;

/// Texts with a prefix, a suffix and parts in between.
#[derive(Debug, Clone)]
pub struct Pattern {
    pub prefix: Vec<u8>,
    parts: Vec<Finder<'static>>,
    pub suffix: Vec<u8>,
}

impl Pattern {
    /// Texts that begin with `prefix`, then have `parts` in this order, and end with `suffix`.
    pub fn new(prefix: &[u8], parts: &[Vec<u8>], suffix: &[u8]) -> Self {
        Self {
            prefix: prefix.to_vec(),
            parts: parts
                .iter()
                .map(|part| Finder::new(part).into_owned())
                .collect(),
            suffix: suffix.to_vec(),
        }
    }

    /// The parts between prefix and suffix.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(Finder::needle)
    }

    /// Whether a text has prefix, parts and suffix, without overlaps.
    pub fn matches(&self, text: &[u8]) -> bool {
        let Some(mut left) = text
            .strip_prefix(self.prefix.as_slice())
            .and_then(|rest| rest.strip_suffix(self.suffix.as_slice()))
        else {
            return false;
        };
        for part in &self.parts {
            let Some(rest) = part
                .find(left)
                .and_then(|at| left.get(at + part.needle().len()..))
            else {
                return false;
            };
            left = rest;
        }
        true
    }

    /// The part that a text has to contain, if that is all.
    pub fn only_part(&self) -> Option<&Finder<'static>> {
        match self.parts.as_slice() {
            [part] if self.prefix.is_empty() && self.suffix.is_empty() => Some(part),
            _ => None,
        }
    }
}
