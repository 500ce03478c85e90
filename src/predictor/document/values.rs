//! What is a document made of? Objects whose fields are all known, and floats as their bits.
//!
//! [`Value`] reads a part of a document under the name that errors give it. [`field`] and [`list`] write one.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::error::Error;
use crate::predictor::json::{Field, Json, clipped};

pub(super) fn refuse<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Document(what.into()))
}

/// Makes an error one about the document.
pub(super) fn in_document<T>(result: Result<T, Error>) -> Result<T, Error> {
    result.map_err(|error| Error::Document(error.to_string()))
}

/// A part of a document, and its name.
#[derive(Clone, Copy)]
pub(super) struct Value<'a, 'j> {
    pub(super) name: &'static str,
    pub(super) json: &'a Json<'j>,
}

impl<'a, 'j> Value<'a, 'j> {
    pub(super) fn refuse<T>(self, expected: &str) -> Result<T, Error> {
        refuse(format!("{} must be {expected}, got {}", self.name, self.shown()))
    }

    /// As an error shows it: a document may hold much.
    pub(super) fn shown(self) -> String {
        match self.json {
            Json::Null => "null".to_owned(),
            Json::Flag(flag) => flag.to_string(),
            Json::Number(number) => clipped(number).to_owned(),
            Json::Text(text) => format!("{:?}", clipped(text)),
            Json::List(_) => "a list".to_owned(),
            Json::Object(_) => "an object".to_owned(),
        }
    }

    pub(super) fn is_text(self, text: &str) -> bool {
        matches!(self.json, Json::Text(found) if found == text)
    }

    /// The fields of an object, which errors call `name`.
    pub(super) fn fields(self, name: &'static str) -> Result<Fields<'a, 'j>, Error> {
        match self.json {
            Json::Object(fields) => Ok(Fields { name, all: fields, is_read: 0 }),
            _ => Self { name, ..self }.refuse("an object"),
        }
    }

    /// The items of a list, each under the name of the list.
    pub(super) fn list(self) -> Result<impl ExactSizeIterator<Item = Self>, Error> {
        match self.json {
            Json::List(items) if !items.is_empty() => {
                Ok(items.iter().map(move |json| Self { name: self.name, json }))
            }
            _ => self.refuse("a list that is not empty"),
        }
    }

    /// A list of so many items.
    pub(super) fn list_of(self, n: usize, what: &str) -> Result<impl ExactSizeIterator<Item = Self>, Error> {
        let items = self.list()?;
        if items.len() == n {
            return Ok(items);
        }
        refuse(format!("{} must hold {n} {what}, got {}", self.name, items.len()))
    }

    pub(super) fn text(self) -> Result<&'a str, Error> {
        match self.json {
            Json::Text(text) => Ok(text),
            _ => self.refuse("a string"),
        }
    }

    /// What a text stands for, in a table of names.
    pub(super) fn one_of<T: Copy>(self, table: &[(&str, T)]) -> Result<T, Error> {
        let text = self.text()?;
        match table.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(*value),
            None => self.refuse("one that is known"),
        }
    }

    pub(super) fn flag(self) -> Result<bool, Error> {
        match self.json {
            Json::Flag(flag) => Ok(*flag),
            _ => self.refuse("True or False"),
        }
    }

    pub(super) fn integer(self) -> Result<u64, Error> {
        match self.json {
            Json::Number(number) if !is_fractional(number) => {
                number.parse().or_else(|_| self.refuse("at least 0 and below 2^64"))
            }
            _ => self.refuse("an integer"),
        }
    }

    /// An integer in a range.
    pub(super) fn within(self, range: RangeInclusive<usize>) -> Result<usize, Error> {
        match usize::try_from(self.integer()?) {
            Ok(value) if range.contains(&value) => Ok(value),
            _ => self.refuse(&format!("at least {} and at most {}", range.start(), range.end())),
        }
    }

    /// An integer of 32 bits.
    pub(super) fn word(self, least: u32) -> Result<u32, Error> {
        match u32::try_from(self.integer()?) {
            Ok(value) if value >= least => Ok(value),
            _ => self.refuse(&format!("between {least} and {}", u32::MAX)),
        }
    }

    /// A float: its bits, and the same value as people read it.
    pub(super) fn number(self) -> Result<f64, Error> {
        let mut fields = self.fields(self.name)?;
        let (bits, readable) = (fields.get("bits")?, fields.get("value")?);
        fields.end()?;
        let values = Self { name: self.name, ..bits }.numbers()?;
        let [value] = values[..] else {
            return refuse(format!("{} must be one number, got {}", self.name, values.len()));
        };
        let agrees = match readable.json {
            // With a fraction or an exponent: an integer is not how a float is written.
            Json::Number(number) if is_fractional(number) => {
                value.is_finite() && number.parse::<f64>().is_ok_and(|v| v.to_bits() == value.to_bits())
            }
            Json::Text(text) => value.is_infinite() && *text == value.to_string(),
            _ => false,
        };
        if agrees {
            return Ok(value);
        }
        refuse(format!("{} has bits for {value:?} beside the value {}", self.name, readable.shown()))
    }

    /// Floats that [`packed`] wrote.
    pub(super) fn numbers(self) -> Result<Vec<f64>, Error> {
        let (words, rest) = self.text()?.as_bytes().as_chunks::<16>();
        let number = |digits: &[u8; 16]| {
            let bits = digits.iter().try_fold(0_u64, |bits, &digit| match digit {
                b'0'..=b'9' => Some(bits << 4 | u64::from(digit - b'0')),
                b'a'..=b'f' => Some(bits << 4 | u64::from(digit - b'a' + 10)),
                _ => None,
            });
            bits.map(f64::from_bits)
        };
        match words.iter().map(number).collect::<Option<Vec<f64>>>() {
            Some(values) if rest.is_empty() => {
                if values.iter().any(|value| value.is_nan()) {
                    return refuse(format!("{} must not contain NaN", self.name));
                }
                Ok(values)
            }
            _ => self.refuse("numbers as 16 hexadecimal digits each"),
        }
    }
}

/// The fields of an object. Each is marked when it is read; fields without a mark at the end are unknown.
pub(super) struct Fields<'a, 'j> {
    name: &'static str,
    all: &'a [Field<'j>],
    /// A bit for each; the parser takes no more than 64.
    is_read: u64,
}

impl<'a, 'j> Fields<'a, 'j> {
    pub(super) fn optional(&mut self, name: &'static str) -> Option<Value<'a, 'j>> {
        let i = self.all.iter().position(|(known, _)| known == name)?;
        self.is_read |= 1_u64.wrapping_shl(i as u32);
        Some(Value { name, json: &self.all[i].1 })
    }

    pub(super) fn get(&mut self, name: &'static str) -> Result<Value<'a, 'j>, Error> {
        self.optional(name).map_or_else(|| refuse(format!("{} has no field '{name}'", self.name)), Ok)
    }

    /// Refuses fields that were not read.
    pub(super) fn end(self) -> Result<(), Error> {
        match self.all.get(self.is_read.trailing_ones() as usize) {
            Some((name, _)) => refuse(format!("{} has an unknown field '{}'", self.name, clipped(name))),
            None => Ok(()),
        }
    }
}

fn is_fractional(number: &str) -> bool {
    number.contains(['.', 'e', 'E'])
}

pub(super) fn field<'a>(name: &'static str, value: impl Into<Json<'a>>) -> Field<'a> {
    (Cow::Borrowed(name), value.into())
}

pub(super) fn list<'a, T: Into<Json<'a>>>(items: impl IntoIterator<Item = T>) -> Json<'a> {
    Json::List(items.into_iter().map(Into::into).collect())
}

/// Floats as the bits of one after another.
pub(super) fn packed(numbers: &[f64]) -> Json<'static> {
    use std::fmt::Write;
    let mut text = String::with_capacity(16 * numbers.len());
    for number in numbers {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:016x}", number.to_bits());
    }
    Json::Text(text.into())
}

impl<'a> From<&'a str> for Json<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<bool> for Json<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(impl From<$type> for Json<'_> {
            fn from(value: $type) -> Self {
                Self::Number(value.to_string().into())
            }
        })*
    };
}
integers!(u32, u64, usize, i64);

impl From<f64> for Json<'_> {
    fn from(value: f64) -> Self {
        let text = if value.is_finite() { readable(value) } else { value.to_string() };
        let readable = if value.is_finite() { Self::Number(text.into()) } else { Self::Text(text.into()) };
        Self::Object(vec![field("bits", packed(&[value])), field("value", readable)])
    }
}

impl<'a, T: Into<Json<'a>>> From<Option<T>> for Json<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The shortest decimal that reads back as the value, as Python writes it.
fn readable(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_those_of_python() {
        let number = |value: f64| Value { name: "x", json: &value.into() }.number();
        for (value, text) in [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(readable(value), text);
            assert_eq!(number(value).unwrap().to_bits(), value.to_bits());
        }
        for value in [f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(number(value).unwrap(), value);
        }
        assert!(number(f64::NAN).is_err());
    }
}
