//! Inputs made from good ones: bytes changed here and there, or values of a document put in wrong places.

use serde_json::Value;

/// Splitmix64: enough to choose by.
pub(crate) struct Choices(pub(crate) u64);

impl Choices {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n.max(1) as u64) as usize
    }

    pub(crate) fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// One of the inputs with one to four edits: a bit flipped, a byte changed, a run cut, copied or taken from
/// another input.
pub(crate) fn edited(inputs: &[Vec<u8>], choices: &mut Choices) -> Vec<u8> {
    let mut bytes = choices.of(inputs).clone();
    for _ in 0..=choices.below(4) {
        let start = choices.below(bytes.len());
        let length = *choices.of(&[1, 1, 2, 8, 40, 300]);
        let end = bytes.len().min(start + length);
        match choices.below(6) {
            0 if start < end => bytes[start] ^= 1 << choices.below(8),
            1 if start < end => bytes[start] = choices.below(256) as u8,
            2 => drop(bytes.drain(start..end)),
            3 => {
                let run = bytes[start..end].to_vec();
                let place = choices.below(bytes.len() + 1);
                bytes.splice(place..place, run);
            }
            4 => {
                let digit = b'0' + choices.below(10) as u8;
                bytes.splice(start..end.min(start + 1), [digit]);
            }
            _ => {
                let other = choices.of(inputs);
                let from = choices.below(other.len());
                let run = other[from..other.len().min(from + length)].to_vec();
                bytes.splice(start..end, run);
            }
        }
    }
    bytes
}

/// One of the documents with one or two values removed, doubled, changed, or replaced by one that stands
/// elsewhere.
pub(crate) fn forged(documents: &[Value], choices: &mut Choices) -> String {
    let mut document = choices.of(documents).clone();
    for _ in 0..=choices.below(2) {
        let spare = match choices.below(4) {
            0 => odd(choices),
            _ => pick(&mut choices.of(documents).clone(), choices).clone(),
        };
        let kind = choices.below(4);
        match (kind, pick(&mut document, choices)) {
            (0, Value::Object(fields)) => {
                let name = fields.keys().nth(choices.below(fields.len())).cloned();
                name.and_then(|name| fields.remove(&name));
            }
            (0 | 1, Value::Array(items)) if !items.is_empty() => {
                let item = choices.of(items).clone();
                items.insert(choices.below(items.len()), item);
            }
            (2, Value::Array(items)) if !items.is_empty() => {
                items.remove(choices.below(items.len()));
            }
            (1 | 2, Value::Number(number)) if number.is_u64() => {
                let step = choices.of(&[1, u64::MAX, 1 << 32, 1 << 63]);
                *number = number.as_u64().unwrap_or(0).wrapping_add(*step).into();
            }
            (_, place) => *place = spare,
        }
    }
    document.to_string()
}

/// Any value of a tree, each level entered with probability 7/8.
fn pick<'a>(node: &'a mut Value, choices: &mut Choices) -> &'a mut Value {
    let n = match node {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if n == 0 || choices.below(8) == 0 {
        return node;
    }
    let i = choices.below(n);
    let child = match node {
        Value::Array(items) => items.get_mut(i),
        Value::Object(fields) => fields.values_mut().nth(i),
        _ => None,
    };
    pick(child.expect("one of those that were counted"), choices)
}

fn odd(choices: &mut Choices) -> Value {
    let texts = [
        "null",
        "true",
        "0",
        "-1",
        "-0.0",
        "1.5",
        "1e300",
        "18446744073709551615",
        "18446744073709551616",
        "\"\"",
        "\"inf\"",
        "\"auto\"",
        "\"modsel\"",
        "\"0000000000000000\"",
        "\"7ff0000000000000\"",
        "\"ffffffffffffffff\"",
        "[]",
        "{}",
        "{\"bits\": \"7ff0000000000000\", \"value\": \"inf\"}",
        "{\"bits\": \"0000000000000000\", \"value\": 0.0}",
        "{\"bits\": \"8000000000000000\", \"value\": -0.0}",
    ];
    let text = *choices.of(&texts);
    serde_json::from_str(text).expect("JSON")
}
