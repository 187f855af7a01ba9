//! The unit of privacy: all rows of a person, say, whose contribution to a query is clipped as one.

use std::fmt::{self, Display};
use std::ops::Range;

use rounds_kernels::linear::Reduction;

/// A declared unit: neighbouring data sets differ in all rows of one unit, their number included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitDeclaration {
    /// The column of a table whose values tell units apart; none where a file of its own has them.
    pub column: Option<String>,
    /// How a unit's rows become one vector.
    pub reduction: Reduction,
    /// The most rows of a unit: later ones are left out, a function of that unit alone.
    pub most_rows: Option<usize>,
}

/// As a statement names it.
impl Display for UnitDeclaration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.column {
            Some(column) => write!(formatter, "all rows with one value of column {column:?}")?,
            None => formatter.write_str("all rows with one unit's number")?,
        }
        if let Some(most) = self.most_rows {
            write!(formatter, ", the first {most} of them")?;
        }
        formatter.write_str(match self.reduction {
            Reduction::Mean => "; reduced to their mean",
            Reduction::Sum => "; reduced to their sum",
        })
    }
}

/// The unit of every row of a table: units are numbered from 0, by their order, which is public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitIds {
    /// One number a row, [`NO_UNIT`](Self::NO_UNIT) for a row that is left out.
    pub of_rows: Vec<u32>,
    /// Number of units. Some may have no row.
    pub count: usize,
}

impl UnitIds {
    /// The number of a row of no unit.
    pub const NO_UNIT: u32 = u32::MAX;

    /// Units in the order of their values: numbers by size, before all other words. A row with an empty value is of no unit: nobody can say
    /// whose it is, and a unit of such rows would tell by its place whether there are any.
    pub fn of_values<'v>(values: impl Iterator<Item = &'v str>) -> Self {
        let mut places = std::collections::HashMap::new();
        let place = |value: &'v str| {
            let next = places.len() as u32;
            if value.is_empty() { Self::NO_UNIT } else { *places.entry(value).or_insert(next) }
        };
        let mut of_rows: Vec<u32> = values.map(place).collect();
        let key = |value: &'v str| (value.parse::<i128>().map_or((true, 0), |number| (false, number)), value);
        let mut known: Vec<_> = places.into_iter().collect();
        known.sort_by_cached_key(|(value, _)| key(value));
        let mut numbers = vec![0; known.len()];
        known.iter().zip(0..).for_each(|((_, place), number)| numbers[*place as usize] = number);
        of_rows.iter_mut().for_each(|unit| *unit = numbers.get(*unit as usize).copied().unwrap_or(Self::NO_UNIT));
        Self { of_rows, count: known.len() }
    }

    /// Each row of a unit, with its unit.
    fn assigned(&self) -> impl Iterator<Item = (usize, usize)> {
        let assigned = self.of_rows.iter().enumerate().filter(|&(_, &unit)| unit != Self::NO_UNIT);
        assigned.map(|(row, &unit)| (row, unit as usize))
    }

    /// The rows of each unit, in their order, and how many each has.
    pub(super) fn order(&self, most_rows: Option<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut counts = vec![0_usize; self.count];
        self.assigned().for_each(|(_, unit)| counts[unit] += 1);
        let most = most_rows.unwrap_or(usize::MAX);
        let mut offsets = vec![0];
        offsets.extend(counts.iter().scan(0, |end, &count| {
            *end += count.min(most);
            Some(*end)
        }));
        let mut order = vec![0; offsets[self.count]];
        let mut next = offsets.clone();
        for (row, unit) in self.assigned() {
            let place = next[unit];
            if place < offsets[unit + 1] {
                order[place] = row;
                next[unit] += 1;
            }
        }
        (order, offsets)
    }
}

/// The units of a data set, whose rows lie side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    declaration: UnitDeclaration,
    /// Unit u has the rows `offsets[u]..offsets[u + 1]`.
    offsets: Vec<usize>,
    /// Rows of no unit, which were left out.
    without_id: usize,
}

impl Units {
    pub(super) fn new(declaration: UnitDeclaration, offsets: Vec<usize>) -> Self {
        Self { declaration, offsets, without_id: 0 }
    }

    /// These units, beside so many rows of none.
    pub(super) fn beside(self, without_id: usize) -> Self {
        Self { without_id, ..self }
    }

    /// Rows of no unit, which were left out. Their number is private.
    pub fn without_id(&self) -> usize {
        self.without_id
    }

    /// What was declared of them.
    pub fn declaration(&self) -> &UnitDeclaration {
        &self.declaration
    }

    /// Number of units, which is public.
    pub fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Rows of a unit, which are private.
    pub fn rows_of(&self, unit: usize) -> Range<usize> {
        self.offsets[unit]..self.offsets[unit + 1]
    }

    /// The begin of each unit's rows, and the end of the last one's.
    pub(crate) fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// These units alone, in this order, and their rows.
    pub(super) fn select(&self, units: impl Iterator<Item = usize>) -> (Self, Vec<usize>) {
        let (mut rows, mut offsets) = (Vec::new(), vec![0]);
        for unit in units {
            rows.extend(self.rows_of(unit));
            offsets.push(rows.len());
        }
        (Self { declaration: self.declaration.clone(), offsets, ..*self }, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_ordered_by_number_then_by_word_whatever_the_order_of_their_rows() {
        let ids = UnitIds::of_values(["b", "10", "9", "", "a", "10", ""].into_iter());
        let none = UnitIds::NO_UNIT;
        assert_eq!(ids, UnitIds { of_rows: vec![3, 1, 0, none, 2, 1, none], count: 4 });
        let (order, offsets) = ids.order(None);
        assert_eq!((order, offsets), (vec![2, 1, 5, 4, 0], vec![0, 1, 3, 4, 5]));
        assert_eq!(ids.order(Some(1)), (vec![2, 1, 4, 0], vec![0, 1, 2, 3, 4]));
    }
}
