//! What is the text of a document? Strict JSON in and out, and the hash of its canonical form.
//!
//! The canonical form leaves out the document's own `sha256` and the readable `value` beside each
//! number's bits; keys are sorted, there are no spaces and only the escapes that JSON requires. No decimal
//! fraction is left in it, so that no two languages can write it differently.

mod parse;

use std::borrow::Cow;
use std::fmt::{self, Write};

use sha2::{Digest, Sha256};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Flag(bool),
    /// As written.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    List(Vec<Self>),
    Object(Vec<(Cow<'a, str>, Self)>),
}

impl Json<'_> {
    /// The text as people read it, two spaces a level, as `json.dumps(indent=2)` writes it in Python.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write_pretty(&mut out, 0);
        out.push('\n');
        out
    }

    fn write_pretty(&self, out: &mut String, depth: usize) {
        let line = |out: &mut String, i: usize, depth: usize| {
            out.push_str(if i > 0 { ",\n" } else { "\n" });
            out.extend(std::iter::repeat_n("  ", depth));
        };
        match self {
            Self::List(items) if !items.is_empty() => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    line(out, i, depth + 1);
                    item.write_pretty(out, depth + 1);
                }
                line(out, 0, depth);
                out.push(']');
            }
            Self::Object(fields) if !fields.is_empty() => {
                out.push('{');
                for (i, (name, value)) in fields.iter().enumerate() {
                    line(out, i, depth + 1);
                    // Writing to a string cannot fail.
                    let _ = write_text(out, name);
                    out.push_str(": ");
                    value.write_pretty(out, depth + 1);
                }
                line(out, 0, depth);
                out.push('}');
            }
            _ => {
                let _ = self.write_canonical(out, false);
            }
        }
    }

    fn write_canonical(&self, out: &mut impl Write, is_document: bool) -> fmt::Result {
        match self {
            Self::Null => out.write_str("null"),
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Number(number) => out.write_str(number),
            Self::Text(text) => write_text(out, text),
            Self::List(items) => {
                out.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.write_char(',')?;
                    }
                    item.write_canonical(out, false)?;
                }
                out.write_char(']')
            }
            Self::Object(fields) => {
                let kept = |name: &str| name != "value" && !(is_document && name == "sha256");
                let mut sorted: Vec<_> = fields.iter().filter(|(name, _)| kept(name)).collect();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                out.write_char('{')?;
                for (i, (name, value)) in sorted.into_iter().enumerate() {
                    if i > 0 {
                        out.write_char(',')?;
                    }
                    write_text(out, name)?;
                    out.write_char(':')?;
                    value.write_canonical(out, false)?;
                }
                out.write_char('}')
            }
        }
    }

    /// SHA-256 of the canonical form, in hexadecimal.
    pub(crate) fn digest(&self) -> String {
        let mut hashing = Hashing(Sha256::new());
        // Feeding a hash cannot fail.
        let _ = self.write_canonical(&mut hashing, true);
        hashing.0.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

struct Hashing(Sha256);

impl Write for Hashing {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// A string with the escapes that JSON requires and no others.
fn write_text(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    let mut rest = text;
    while let Some(i) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        out.write_str(&rest[..i])?;
        match rest.as_bytes()[i] {
            b'"' => out.write_str("\\\"")?,
            b'\\' => out.write_str("\\\\")?,
            b'\n' => out.write_str("\\n")?,
            b'\r' => out.write_str("\\r")?,
            b'\t' => out.write_str("\\t")?,
            0x08 => out.write_str("\\b")?,
            0x0c => out.write_str("\\f")?,
            other => write!(out, "\\u{other:04x}")?,
        }
        rest = &rest[i + 1..];
    }
    out.write_str(rest)?;
    out.write_char('"')
}

/// The beginning of a text that an error shows.
pub(crate) fn clipped(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_texts() {
        for (text, canonical) in [
            ("null", "null"),
            (" [ ] ", "[]"),
            ("{}", "{}"),
            ("[1,-0.5e+3,\"a\"]", "[1,-0.5e+3,\"a\"]"),
            (
                r#"{"b": [true, false], "a": "\u00e9\ud83d\ude00\n\u001f\/"}"#,
                "{\"a\":\"é😀\\n\\u001f/\",\"b\":[true,false]}",
            ),
            (
                r#"{"sha256": 1, "x": {"bits": "0", "value": 1.5, "sha256": 2}}"#,
                r#"{"x":{"bits":"0","sha256":2}}"#,
            ),
        ] {
            let value = Json::parse(text).unwrap();
            let mut out = String::new();
            value.write_canonical(&mut out, true).unwrap();
            assert_eq!(out, canonical);
            assert_eq!(Json::parse(&value.pretty()).unwrap(), value);
        }
    }

    #[test]
    fn the_hash_is_sha256() {
        // Of the two bytes "{}".
        let expected = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(Json::parse("{}").unwrap().digest(), expected);
        assert_eq!(Json::parse(r#"{"sha256": "x"}"#).unwrap().digest(), expected);
    }
}
