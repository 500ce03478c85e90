//! What is the text of a document? Strict JSON in and out, and the hash of its canonical form.
//!
//! The canonical form leaves out the document's own `sha256` and the readable `value` beside each number's
//! bits. Its keys are sorted, it has no spaces, and it escapes only what JSON requires. No decimal fraction
//! is left in it, so no two languages can write it differently.

mod parse;

use std::borrow::Cow;
use std::fmt::{self, Write};

use sha2::{Digest, Sha256};

/// A name and its value.
pub(crate) type Field<'a> = (Cow<'a, str>, Json<'a>);

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Flag(bool),
    /// As written.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    List(Vec<Self>),
    Object(Vec<Field<'a>>),
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// For people: two spaces a level, as `json.dumps(indent=2)` writes it in Python.
    Pretty,
    /// For the hash.
    Canonical,
}

impl<'a> Json<'a> {
    /// The value of a field, if this is an object that has it.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(fields) = self else { return None };
        fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The text as people read it.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out, Form::Pretty, 0);
        out.push('\n');
        out
    }

    /// SHA-256 of the canonical form, in hexadecimal.
    pub(crate) fn digest(&self) -> String {
        let mut hashing = Hashing(Sha256::new());
        // Feeding a hash cannot fail.
        let _ = self.write(&mut hashing, Form::Canonical, 0);
        hashing.0.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// The object with its hash as the last field.
    pub(crate) fn sealed(self) -> Self {
        let digest = self.digest();
        match self {
            Self::Object(mut fields) => {
                fields.retain(|(name, _)| name != "sha256");
                fields.push(("sha256".into(), Self::Text(digest.into())));
                Self::Object(fields)
            }
            other => other,
        }
    }

    fn write(&self, out: &mut dyn Write, form: Form, depth: usize) -> fmt::Result {
        match self {
            Self::Null => out.write_str("null"),
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Number(number) => out.write_str(number),
            Self::Text(text) => write_text(out, text),
            Self::List(items) => {
                bracketed(out, ['[', ']'], items, form, depth, |out, item| item.write(out, form, depth + 1))
            }
            Self::Object(fields) => {
                let mut fields: Vec<&Field<'a>> = fields.iter().collect();
                if form == Form::Canonical {
                    fields.retain(|(name, _)| name != "value" && (depth > 0 || name != "sha256"));
                    fields.sort_by(|a, b| a.0.cmp(&b.0));
                }
                bracketed(out, ['{', '}'], fields, form, depth, |out, (name, value)| {
                    write_text(out, name)?;
                    out.write_str(if form == Form::Pretty { ": " } else { ":" })?;
                    value.write(out, form, depth + 1)
                })
            }
        }
    }
}

/// Writes items between brackets, with commas; in the pretty form each on a line of its own.
fn bracketed<T>(
    out: &mut dyn Write,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    form: Form,
    depth: usize,
    each: impl Fn(&mut dyn Write, T) -> fmt::Result,
) -> fmt::Result {
    let new_line = |out: &mut dyn Write, depth: usize| match form {
        Form::Pretty => write!(out, "\n{:1$}", "", 2 * depth),
        Form::Canonical => Ok(()),
    };
    out.write_char(open)?;
    let mut is_empty = true;
    for item in items {
        if !is_empty {
            out.write_char(',')?;
        }
        is_empty = false;
        new_line(out, depth + 1)?;
        each(out, item)?;
    }
    if !is_empty {
        new_line(out, depth)?;
    }
    out.write_char(close)
}

struct Hashing(Sha256);

impl Write for Hashing {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// A string with the escapes that JSON requires and no others.
fn write_text(out: &mut dyn Write, text: &str) -> fmt::Result {
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
            value.write(&mut out, Form::Canonical, 0).unwrap();
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
