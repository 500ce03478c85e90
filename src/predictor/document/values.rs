//! The values that documents are made of: floats as bits, lists of them, and checked fields.

use std::borrow::Cow;

use crate::error::Error;
use crate::predictor::json::{Json, clipped};

pub(super) fn refuse<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Document(what.into()))
}

pub(super) fn field<'a>(name: &'static str, value: Json<'a>) -> (Cow<'a, str>, Json<'a>) {
    (Cow::Borrowed(name), value)
}

pub(super) fn borrowed(text: &str) -> Json<'_> {
    Json::Text(Cow::Borrowed(text))
}

pub(super) fn integer_json(value: u64) -> Json<'static> {
    Json::Number(value.to_string().into())
}

pub(super) fn number_json(value: f64) -> Json<'static> {
    let readable = if value.is_finite() {
        Json::Number(readable(value).into())
    } else {
        Json::Text(value.to_string().into())
    };
    Json::Object(vec![
        field("bits", Json::Text(format!("{:016x}", value.to_bits()).into())),
        field("value", readable),
    ])
}

/// The shortest decimal that reads back the same, as Python writes it.
fn readable(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

pub(super) fn packed(scores: &[f64]) -> String {
    let mut text = String::with_capacity(16 * scores.len());
    for score in scores {
        use std::fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!(text, "{:016x}", score.to_bits());
    }
    text
}

/// The fields of an object, all of them known.
pub(super) struct Fields<'a, 'j>(&'a [(Cow<'j, str>, Json<'j>)]);

impl<'a, 'j> Fields<'a, 'j> {
    pub(super) fn new(
        document: &'a Json<'j>,
        name: &str,
        required: &[&str],
        optional: &[&str],
    ) -> Result<Self, Error> {
        let Json::Object(fields) = document else {
            return refuse(format!("{name} must be an object, got {}", shown(document)));
        };
        if let Some(missing) = required.iter().find(|name| fields.iter().all(|(known, _)| known != *name)) {
            return refuse(format!("{name} has no field '{missing}'"));
        }
        let is_known = |field: &&str| required.contains(field) || optional.contains(field);
        if let Some((unknown, _)) = fields.iter().find(|(field, _)| !is_known(&&**field)) {
            return refuse(format!("{name} has an unknown field '{}'", clipped(unknown)));
        }
        Ok(Self(fields))
    }

    pub(super) fn optional(&self, name: &str) -> Option<&'a Json<'j>> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// A required field.
    pub(super) fn get(&self, name: &str) -> &'a Json<'j> {
        self.optional(name).unwrap_or(&Json::Null)
    }
}

pub(super) fn is_text(document: &Json<'_>, expected: &str) -> bool {
    matches!(document, Json::Text(text) if text == expected)
}

pub(super) fn list<'a, 'j>(document: &'a Json<'j>, name: &str) -> Result<&'a [Json<'j>], Error> {
    match document {
        Json::List(items) if !items.is_empty() => Ok(items),
        _ => refuse(format!("{name} must be a list that is not empty, got {}", shown(document))),
    }
}

pub(super) fn text<'a>(document: &'a Json<'_>, name: &str) -> Result<&'a str, Error> {
    match document {
        Json::Text(text) => Ok(text),
        _ => refuse(format!("{name} must be a string, got {}", shown(document))),
    }
}

pub(super) fn flag(document: &Json<'_>, name: &str) -> Result<bool, Error> {
    match document {
        Json::Flag(flag) => Ok(*flag),
        _ => refuse(format!("{name} must be True or False, got {}", shown(document))),
    }
}

pub(super) fn integer(document: &Json<'_>, name: &str) -> Result<u64, Error> {
    match document {
        Json::Number(number) if !number.contains(['.', 'e', 'E']) => number.parse().map_err(|_| {
            Error::Document(format!("{name} must be at least 0 and below 2^64, got {}", clipped(number)))
        }),
        _ => refuse(format!("{name} must be an integer, got {}", shown(document))),
    }
}

pub(super) fn count(document: &Json<'_>, name: &str, most: usize) -> Result<usize, Error> {
    let value = integer(document, name)?;
    match usize::try_from(value) {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => refuse(format!("{name} must be at least 1 and at most {most}, got {value}")),
    }
}

pub(super) fn number(document: &Json<'_>, name: &str) -> Result<f64, Error> {
    let fields = Fields::new(document, name, &["bits", "value"], &[])?;
    let values = unpacked(fields.get("bits"), name)?;
    let [value] = values[..] else {
        return refuse(format!("{name} must be one number, got {}", values.len()));
    };
    let readable = fields.get("value");
    let agrees = match readable {
        // With a fraction or an exponent: an integer is not how a float is written.
        Json::Number(number) if number.contains(['.', 'e', 'E']) => {
            value.is_finite() && number.parse::<f64>().is_ok_and(|v| v.to_bits() == value.to_bits())
        }
        Json::Text(text) => value.is_infinite() && *text == value.to_string(),
        _ => false,
    };
    if agrees {
        return Ok(value);
    }
    refuse(format!("{name} has bits for {value:?} beside the value {}", shown(readable)))
}

pub(super) fn unpacked(document: &Json<'_>, name: &str) -> Result<Vec<f64>, Error> {
    let digits = text(document, name)?.as_bytes();
    let (words, rest) = digits.as_chunks::<16>();
    let word = |digits: &[u8; 16]| {
        digits.iter().try_fold(0_u64, |word, &digit| match digit {
            b'0'..=b'9' => Some(word << 4 | u64::from(digit - b'0')),
            b'a'..=b'f' => Some(word << 4 | u64::from(digit - b'a' + 10)),
            _ => None,
        })
    };
    let values: Option<Vec<f64>> = words.iter().map(|digits| word(digits).map(f64::from_bits)).collect();
    match values {
        Some(values) if rest.is_empty() => {
            if values.iter().any(|value| value.is_nan()) {
                return refuse(format!("{name} must not contain NaN"));
            }
            Ok(values)
        }
        _ => {
            let found = shown(document);
            refuse(format!("{name} must be numbers as 16 hexadecimal digits each, got {found}"))
        }
    }
}

/// A value as an error shows it: a document may hold much.
pub(super) fn shown(document: &Json<'_>) -> String {
    match document {
        Json::Null => "null".to_owned(),
        Json::Flag(flag) => flag.to_string(),
        Json::Number(number) => clipped(number).to_owned(),
        Json::Text(text) => format!("{:?}", clipped(text)),
        Json::List(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_those_of_python() {
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
            assert_eq!(number(&number_json(value), "x").unwrap().to_bits(), value.to_bits());
        }
        for value in [f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(number(&number_json(value), "x").unwrap(), value);
        }
        assert!(number(&number_json(f64::NAN), "x").is_err());
    }
}
