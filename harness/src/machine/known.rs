//! A fact about the machine that the system may not give.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value, or "unknown" where the system does not give it (containers, virtual machines, other platforms).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known<T>(pub Option<T>);

impl<T> From<Option<T>> for Known<T> {
    fn from(value: Option<T>) -> Self {
        Self(value)
    }
}

impl<T: Display> Display for Known<T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(formatter),
            None => formatter.write_str("unknown"),
        }
    }
}

impl<T: Serialize> Serialize for Known<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str("unknown"),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Known<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        enum Word {
            #[serde(rename = "unknown")]
            Unknown,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either<T> {
            Unknown(Word),
            Value(T),
        }
        Ok(Self(match Either::deserialize(deserializer)? {
            Either::Unknown(Word::Unknown) => None,
            Either::Value(value) => Some(value),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_a_word_and_survives_a_round_trip() {
        let unknown: Known<u64> = Known(None);
        assert_eq!(serde_json::to_string(&unknown).unwrap(), "\"unknown\"");
        assert_eq!(serde_json::from_str::<Known<u64>>("\"unknown\"").unwrap(), unknown);
        assert_eq!(serde_json::from_str::<Known<u64>>("7").unwrap(), Known(Some(7)));
        assert_eq!(serde_json::from_str::<Known<String>>("\"unknown\"").unwrap(), Known(None));
        assert_eq!(unknown.to_string(), "unknown");
    }
}
