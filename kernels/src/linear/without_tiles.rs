//! Stand-in for [`super::integer`] in builds without integer tiles. Its scratch memory cannot be constructed.

use super::residuals::BlockRows;
use super::{Batch, Clip, LinearModel, NonFiniteGradient, Query, Tally};
use crate::features::{Selection, U8Rows};
use std::ops::Range;

pub(super) const SUMMED_ROWS: usize = super::BLOCK_ROWS;
pub(super) const LEAST_ROWS: usize = 32;

#[derive(Debug)]
pub(super) enum Scratch {}

impl Scratch {
    pub(super) fn new(_: &LinearModel) -> Option<Box<Self>> {
        None
    }

    pub(super) fn prepare(&mut self, _: &LinearModel, _: &[f32]) -> bool {
        match *self {}
    }

    pub(super) fn check(&self, _: &LinearModel) {
        match *self {}
    }

    pub(super) fn add_outer(
        &mut self,
        _: &LinearModel,
        _: U8Rows<'_>,
        _: &Selection<'_>,
        _: Range<usize>,
        _: &[f32],
        _: Option<i32>,
        _: &mut [f64],
    ) {
        match *self {}
    }

    pub(super) fn margins(&mut self, _: U8Rows<'_>, _: &Selection<'_>, _: Range<usize>, _: &mut [f32]) {
        match *self {}
    }
}

pub(super) fn step_exponent(_: &LinearModel, _: f32, _: Clip, _: f32) -> Option<i32> {
    None
}

pub(super) fn accumulate(
    _: &LinearModel,
    _: &Batch<'_>,
    _: U8Rows<'_>,
    _: &Query<'_>,
    _: Option<&[f32]>,
    _: &mut [f64],
    scratch: &mut Scratch,
    _: (&mut [f32], &mut [f32], &mut BlockRows),
) -> Option<Result<Tally, NonFiniteGradient>> {
    match *scratch {}
}
