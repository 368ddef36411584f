//! Patterns in which a wildcard is one character, and patterns that ignore case.
//!
//!     LIKE 'a_c%d'     also tested for 'a%c%d', which is found quickly and matches whenever
//!                      the pattern does
//!     ILIKE 'ok%'      'K', 'k' and the Kelvin sign are equal, and so are 'S', 's' and the long s
//! If a text does not match from one place on, the last `%` takes in one more character.

use super::pattern::Pattern;

/// A part of a pattern.
#[derive(Debug, Clone)]
pub enum Part {
    /// Any characters, or none.
    Any,
    /// One character.
    One,
    Text(String),
}

#[derive(Debug, Clone, Copy)]
enum Token {
    Any,
    One,
    Is(char),
}

/// A pattern of characters.
#[derive(Debug, Clone)]
pub struct Wildcards {
    tokens: Vec<Token>,
    /// A pattern of bytes that matches whenever this one does.
    wider: Option<Pattern>,
    ignores_case: bool,
}

impl Wildcards {
    /// Of patterns that ignore case, the texts have to be ASCII.
    pub fn new(parts: &[Part], ignores_case: bool) -> Self {
        let mut tokens = Vec::new();
        for part in parts {
            match part {
                Part::Any => tokens.push(Token::Any),
                Part::One => tokens.push(Token::One),
                Part::Text(text) if ignores_case => {
                    let lower = text.chars().map(|one| one.to_ascii_lowercase());
                    tokens.extend(lower.map(Token::Is));
                }
                Part::Text(text) => tokens.extend(text.chars().map(Token::Is)),
            }
        }
        Self {
            tokens,
            wider: (!ignores_case).then(|| wider(parts)),
            ignores_case,
        }
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        if self
            .wider
            .as_ref()
            .is_some_and(|wider| !wider.matches(text))
        {
            return false;
        }
        std::str::from_utf8(text).is_ok_and(|text| self.matches_text(text))
    }

    fn matches_text(&self, text: &str) -> bool {
        let (mut left, mut next, mut again) = (text.chars(), 0, None);
        loop {
            let mut rest = left.clone();
            match (self.tokens.get(next), rest.next()) {
                (Some(Token::Any), _) => {
                    next += 1;
                    again = Some((left.clone(), next));
                    continue;
                }
                (Some(token), Some(character)) if self.is_equal(*token, character) => {
                    (left, next) = (rest, next + 1);
                    continue;
                }
                (None, None) => return true,
                _ => {}
            }
            let Some((mut from, after)) = again else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            (left, next, again) = (from.clone(), after, Some((from, after)));
        }
    }

    fn is_equal(&self, token: Token, character: char) -> bool {
        let Token::Is(expected) = token else {
            return true;
        };
        if !self.ignores_case {
            return character == expected;
        }
        character.to_ascii_lowercase() == expected
            || matches!((expected, character), ('k', '\u{212a}') | ('s', '\u{17f}'))
    }
}

/// The pattern with any characters in place of one.
fn wider(parts: &[Part]) -> Pattern {
    let text = |part: Option<&Part>| match part {
        Some(Part::Text(text)) => text.clone().into_bytes(),
        _ => Vec::new(),
    };
    let (prefix, suffix) = match parts {
        [_] | [] => (Vec::new(), Vec::new()),
        _ => (text(parts.first()), text(parts.last())),
    };
    let first = usize::from(!prefix.is_empty());
    let last = parts.len() - usize::from(!suffix.is_empty());
    let middle = parts.get(first..last).unwrap_or_default();
    let middle: Vec<Vec<u8>> = middle.iter().map(|part| text(Some(part))).collect();
    let middle: Vec<Vec<u8>> = middle.into_iter().filter(|text| !text.is_empty()).collect();
    Pattern::new(&prefix, &middle, &suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, text: &str, ignores_case: bool) -> bool {
        let part = |one| match one {
            '%' => Part::Any,
            '_' => Part::One,
            other => Part::Text(other.to_string()),
        };
        let parts: Vec<Part> = pattern.chars().map(part).collect();
        Wildcards::new(&parts, ignores_case).matches(text.as_bytes())
    }

    #[test]
    fn a_wildcard_is_one_character() {
        for (pattern, text, expected) in [
            ("_", "ß", true),
            ("_", "", false),
            ("a_c", "abc", true),
            ("a_c", "ac", false),
            ("%a_c", "aacabc", true),
            ("%_b", "b", false),
            ("a_%b_", "axbb\n", true),
            ("_%_", "x", false),
        ] {
            assert_eq!(is_match(pattern, text, false), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn letters_of_other_case_are_equal() {
        assert!(is_match("OK_s", "o\u{212a}?\u{17f}", true));
        assert!(!is_match("OK_s", "ok?s", false));
        assert!(!is_match("i", "\u{130}", true));
    }
}
