//! The pieces of JSON documents, and of what is looked for in them.
//!
//!     {"a": {"b": ["x y", 1]}, "c": null}  ──▶  a.b,str,x@0  a.b,str,y@1  a.b,number,1@2  c,null,null@3
//!     a.b,str,x y;c,null,null              ──▶  a.b,str,x@0  a.b,str,y@1  c,null,null@2
//!
//! Members of an object come in the order of their keys; positions count the tokens of a document.

use super::base::Base;
use super::{Piece, Sink, next};
use crate::error::{Corrupt, Result};
use crate::jsonb::Json;

/// Hands the pieces of a JSON text to `sink`.
pub fn document(base: &Base, text: &str, sink: &mut impl Sink) -> Result<()> {
    let value: Json<'_> =
        serde_json::from_str(text).map_err(|error| Corrupt(format!("JSON: {error}")))?;
    let mut walk = Walk {
        base,
        sink,
        position: 0,
    };
    walk.value("", &value)
}

/// Hands the pieces of a query to `sink`.
pub fn query(base: &Base, text: &str, sink: &mut impl Sink) -> Result<()> {
    let mut walk = Walk {
        base,
        sink,
        position: 0,
    };
    for triple in text.split(';') {
        let mut parts = triple.splitn(3, ',');
        let (Some(path), Some(kind), Some(value)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Corrupt(format!(
                "Invalid triple format: {triple:?}; write path,type,value"
            )));
        };
        match kind {
            "str" => walk.text(path, value)?,
            "number" | "bool" | "null" => walk.verbatim(path, kind, value)?,
            _ => {
                return Err(Corrupt(format!(
                    "Invalid triple type: {kind:?}; expected str, number, bool or null"
                )));
            }
        }
    }
    Ok(())
}

struct Walk<'a, S> {
    base: &'a Base,
    sink: &'a mut S,
    position: u32,
}

impl<S: Sink> Walk<'_, S> {
    fn value(&mut self, path: &str, value: &Json<'_>) -> Result<()> {
        match value {
            Json::Object(members) => members.iter().try_for_each(|(key, value)| {
                if path.is_empty() {
                    self.value(key, value)
                } else {
                    self.value(&format!("{path}.{key}"), value)
                }
            }),
            Json::Array(items) => items.iter().try_for_each(|item| self.value(path, item)),
            Json::Text(text) => self.text(path, text),
            Json::Null => self.verbatim(path, "null", "null"),
            Json::Bool(value) => self.verbatim(path, "bool", &value.to_string()),
            Json::Uint(value) => self.verbatim(path, "number", &value.to_string()),
            Json::Int(value) => self.verbatim(path, "number", &value.to_string()),
            Json::Float(value) => {
                let text = spelled(as_indexed(*value)?)?;
                self.verbatim(path, "number", &text)
            }
        }
    }

    fn text(&mut self, path: &str, text: &str) -> Result<()> {
        let prefix = format!("{path},str,");
        let (sink, position) = (&mut *self.sink, &mut self.position);
        self.base.pieces(text, &mut |text, _| {
            let piece = Piece {
                prefix: &prefix,
                text,
                verbatim: false,
            };
            if sink(piece, *position)? {
                *position = next(*position)?;
            }
            Ok(())
        })
    }

    fn verbatim(&mut self, path: &str, kind: &str, text: &str) -> Result<()> {
        let piece = Piece {
            prefix: &format!("{path},{kind},"),
            text,
            verbatim: true,
        };
        if (self.sink)(piece, self.position)? {
            self.position = next(self.position)?;
        }
        Ok(())
    }
}

fn spelled(value: f64) -> Result<String> {
    serde_json::to_string(&value).map_err(|error| Corrupt(error.to_string()))
}

/// The number whose text is a token: the reference reads the shortest text of a number with one
/// rounding too many, which may change its last digit.
fn as_indexed(value: f64) -> Result<f64> {
    let text = spelled(value.abs())?;
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let parsed = format!("{whole}{fraction}").parse().ok();
    let exponent = exponent.parse::<i32>().ok();
    let places = i32::try_from(fraction.len()).ok();
    let read = parsed
        .zip(exponent.zip(places))
        .map(|(digits, (exponent, places))| scaled(digits, exponent - places))
        .filter(|read| read.is_finite());
    Ok(read.map_or(value, |read| read.copysign(value)))
}

/// `digits` times ten to the power of `exponent`, rounded at each step.
fn scaled(digits: f64, exponent: i32) -> f64 {
    if exponent < -308 {
        scaled(digits / 1e308, exponent + 308)
    } else if exponent < 0 {
        digits / power(-exponent)
    } else {
        digits * power(exponent)
    }
}

/// The double that is nearest to a power of ten; infinite if it is too large.
fn power(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(f64::INFINITY)
}
