//! JSON of which no object has a key twice: the second would silently replace the first.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

/// The value of a text.
///
/// # Errors
/// The line and column of the first mistake.
pub fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map(|Once(value)| value).map_err(|why| {
        let whole = why.to_string();
        let reason = match why.classify() {
            Category::Data => whole.rsplit_once(" at line ").map_or(&*whole, |(reason, _)| reason),
            _ => "not JSON",
        };
        format!("line {}, column {}: {reason}", why.line(), why.column())
    })
}

/// A value whose objects have each key once.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OnceVisitor).map(Self)
    }
}

struct OnceVisitor;

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, own: bool) -> Result<Value, E> {
        Ok(own.into())
    }

    fn visit_i64<E>(self, own: i64) -> Result<Value, E> {
        Ok(own.into())
    }

    fn visit_u64<E>(self, own: u64) -> Result<Value, E> {
        Ok(own.into())
    }

    fn visit_f64<E>(self, own: f64) -> Result<Value, E> {
        Ok(own.into())
    }

    fn visit_str<E>(self, own: &str) -> Result<Value, E> {
        Ok(own.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut own: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Once(value)) = own.next_element()? {
            all.push(value);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut own: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = own.next_key::<String>()? {
            let Once(value) = own.next_value()?;
            if all.contains_key(&key) {
                return Err(A::Error::custom(format_args!("{key:?} is given twice")));
            }
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn values_are_read_whole() {
        let value = json!({"a": [1, -2, 0.5, null, true, "x\"y"], "b": {"a": {}, "c": []}});
        assert_eq!(parse(&value.to_string()), Ok(value));
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, why) in [
            ("{\n\"schema\": 1,,}", "line 2, column 13: not JSON"),
            ("[1] 2", "line 1, column 5: not JSON"),
            ("{\"a\": 1,\n \"a\": 1}", "line 2, column 8: \"a\" is given twice"),
            ("[{\"a\": {\"b\": 1, \"b\": 2}}]", "line 1, column 23: \"b\" is given twice"),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()));
        }
    }
}
