//! Values by key, in the order in which the keys first appear.

/// The values of each key. Keys, and the values of each, have the order of `items`.
pub(crate) fn by_key<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, value) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Each value once.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    by_key(values.into_iter().map(|value| (value, ()))).into_iter().map(|(value, _)| value).collect()
}
