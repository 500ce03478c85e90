//! How is JSON read?
//!
//! This parser exists for its limits. Depth, length and the number of values are bounded; a field that stands
//! twice is refused; numbers stay as they are written, so nothing is rounded before it is checked. Strings
//! without escapes are borrowed from the text.

use std::borrow::Cow;

use super::{Json, clipped};
use crate::error::Error;

/// Levels of lists and objects; a document has seven.
const DEEPEST: usize = 16;
/// Values of all kinds. This bounds memory to a small multiple of the text.
const MOST_VALUES: usize = 1 << 20;
/// Lists and objects, which take more room than their two characters.
const MOST_BRACKETS: usize = 1 << 18;
/// Fields of one object; a document has sixteen.
const MOST_FIELDS: usize = 64;

impl<'a> Json<'a> {
    /// Reads a whole text as one value.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Error> {
        let mut parser = Parser { text, at: 0, n_values: 0, n_brackets: 0 };
        let value = parser.value(0)?;
        parser.skip_space();
        if parser.at < text.len() { Err(parser.refuse("nothing more")) } else { Ok(value) }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    n_values: usize,
    n_brackets: usize,
}

impl<'a> Parser<'a> {
    fn refuse(&self, expected: &str) -> Error {
        Error::Document(format!("JSON must have {expected} at byte {}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(wanted.as_bytes());
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, Error> {
        self.n_values += 1;
        if self.n_values > MOST_VALUES {
            return Err(self.refuse("no more than 1048576 values"));
        }
        if depth > DEEPEST {
            return Err(self.refuse("no more than 16 levels"));
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Flag(true)),
            _ if self.take("false") => Ok(Json::Flag(false)),
            _ => Err(self.refuse("a value")),
        }
    }

    /// Calls `each` for the items between brackets; the opening bracket comes next.
    fn items(
        &mut self,
        close: &str,
        mut each: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.n_brackets += 1;
        if self.n_brackets > MOST_BRACKETS {
            return Err(self.refuse("no more than 262144 lists and objects"));
        }
        self.at += 1;
        self.skip_space();
        if self.take(close) {
            return Ok(());
        }
        loop {
            each(self)?;
            self.skip_space();
            if self.take(close) {
                return Ok(());
            }
            if !self.take(",") {
                return Err(self.refuse("a comma or a closing bracket"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json<'a>, Error> {
        let mut items = Vec::new();
        self.items("]", |parser| {
            items.push(parser.value(depth + 1)?);
            Ok(())
        })?;
        // A list first makes room for four items, which is much if there are many short lists.
        items.shrink_to_fit();
        Ok(Json::List(items))
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, Error> {
        let mut fields: Vec<(Cow<'a, str>, Json<'a>)> = Vec::new();
        self.items("}", |parser| {
            parser.skip_space();
            if parser.peek() != Some(b'"') {
                return Err(parser.refuse("a field"));
            }
            let name = parser.string()?;
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(Error::Document(format!("field {:?} stands twice", clipped(&name))));
            }
            if fields.len() == MOST_FIELDS {
                return Err(parser.refuse("no more than 64 fields in an object"));
            }
            parser.skip_space();
            if !parser.take(":") {
                return Err(parser.refuse("a colon"));
            }
            fields.push((name, parser.value(depth + 1)?));
            Ok(())
        })?;
        fields.shrink_to_fit();
        Ok(Json::Object(fields))
    }

    fn digits(&mut self) -> Result<usize, Error> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.refuse("a digit")) } else { Ok(self.at - start) }
    }

    fn number(&mut self) -> Result<Json<'a>, Error> {
        let start = self.at;
        self.take("-");
        let is_zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && is_zero {
            return Err(self.refuse("numbers without leading zeros"));
        }
        if self.take(".") {
            self.digits()?;
        }
        if self.take("e") || self.take("E") {
            if !self.take("+") {
                self.take("-");
            }
            self.digits()?;
        }
        Ok(Json::Number(Cow::Borrowed(&self.text[start..self.at])))
    }

    /// A string; its opening quote comes next.
    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
                self.at += 1;
            }
            // Borrowed as long as it is the only piece.
            text += &self.text[start..self.at];
            if self.take("\"") {
                return Ok(text);
            }
            if !self.take("\\") {
                return Err(self.refuse("a string that ends, without control characters"));
            }
            text.to_mut().push(self.escape()?);
        }
    }

    /// The character of an escape, after its backslash.
    fn escape(&mut self) -> Result<char, Error> {
        let byte = self.peek();
        self.at += 1;
        Ok(match byte {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.code_unit()?;
                let is_pair = (0xd800..0xdc00).contains(&first) && self.take("\\u");
                let second = if is_pair { Some(self.code_unit()?) } else { None };
                match char::decode_utf16(std::iter::once(first).chain(second)).next() {
                    Some(Ok(c)) => c,
                    _ => return Err(self.refuse("pairs of surrogates")),
                }
            }
            _ => {
                self.at -= 1;
                return Err(self.refuse("an escape"));
            }
        })
    }

    fn code_unit(&mut self) -> Result<u16, Error> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let mut unit = 0;
        for &digit in digits.unwrap_or(b"?") {
            let Some(value) = char::from(digit).to_digit(16) else {
                return Err(self.refuse("four hexadecimal digits"));
            };
            unit = unit << 4 | value as u16;
        }
        self.at += 4;
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_texts() {
        let deep = "[".repeat(100_000);
        let wide = format!("[{}0]", "0,".repeat(1 << 20));
        let brackets = format!("[{}0]", "[],".repeat(1 << 18));
        let fields: Vec<String> = (0..65).map(|i| format!("\"{i}\":0")).collect();
        let fields = format!("{{{}}}", fields.join(","));
        let short = r#"nul 01 - 1. .5 1e +1 NaN Infinity 'a' "a "\x" "\u12"
            "\u12g4" "\ud800" "\ud800\u0041" "\udc00"
            "\ "\u [ { [1,] {"a"} {"a":1,} {a:1} {"a":1,"a":2} {"a":1,"\u0061":2}"#;
        let spaced = ["", " ", "\"\n\"", "[1 2]", "1 2", "\u{feff}1", &deep, &wide, &brackets, &fields];
        for text in short.split_whitespace().chain(spaced) {
            assert!(matches!(Json::parse(text), Err(Error::Document(_))), "{}", clipped(text));
        }
    }
}
