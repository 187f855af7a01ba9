//! Text files by blocks of whole lines: one thread reads and unpacks, the others parse, and the parsed blocks are
//! appended in the order of the file, so that the result does not depend on the number of threads.

use crate::data::error::DataError;
use crate::data::source::{Progress, Source};
use rayon::prelude::*;
use std::path::Path;
use std::sync::mpsc::sync_channel;

/// Bytes of text a block holds at least, but for the last one; blocks end with a line.
pub(super) const BLOCK_BYTES: usize = 1 << 18;

/// A line that is not as the format asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    /// Lines before it in the block.
    line: usize,
    /// The problem and the way out.
    problem: String,
}

impl BadLine {
    /// The `line`-th line of the block, counting from 0.
    pub(super) fn new(line: usize, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Self {
        Self { line, problem: format!("expected {expected}; found {found}") }
    }

    /// The error about this line of a file, with `lines_before` lines before the block.
    pub(super) fn at(self, path: &Path, lines_before: usize) -> DataError {
        DataError::contents_at(path, &format!(", line {}", lines_before + self.line + 1), self.problem)
    }
}

/// At most 60 characters of a field, for a message.
pub(super) fn excerpt(text: &[u8]) -> String {
    let end = text.iter().position(|&byte| byte == b'\n').unwrap_or(text.len());
    let text = text[..end].trim_ascii_end();
    let shown = String::from_utf8_lossy(&text[..text.len().min(60)]);
    format!("{:?}{}", shown, if text.len() > 60 { "…" } else { "" })
}

/// Parses a file block by block.
///
/// `start` is text that was read already, for example the first line; `lines_before` counts the lines before it. `parse`
/// turns a block of whole lines, each ending with a line feed, into a part and the number of lines in it; it runs on
/// rayon's current pool. `append` takes the parts in the order of the file, with how much of it has been read, and may
/// refuse one.
///
/// # Errors
/// Those of reading; the complaint about the first bad line of the file; and what `append` refuses.
pub(super) fn parse_blocks<Part: Send>(
    mut source: Source<'_>,
    start: Vec<u8>,
    mut lines_before: usize,
    parse: impl Fn(&[u8]) -> Result<(Part, usize), BadLine> + Sync,
    mut append: impl FnMut(Part, Progress) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let threads = rayon::current_num_threads();
    let path = source.path().to_path_buf();
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(2 * threads);
        scope.spawn(move || {
            let mut carried = start;
            loop {
                let block = match next_block(&mut source, &mut carried).transpose() {
                    Some(block) => block.map(|text| (text, source.progress())),
                    None => return,
                };
                // The receiver is gone only if it has found an earlier error.
                let failed = block.is_err();
                if sender.send(block).is_err() || failed {
                    return;
                }
            }
        });
        while let Ok(first) = receiver.recv() {
            let blocks = std::iter::once(first).chain(receiver.try_iter().take(4 * threads - 1));
            let mut failure = Ok(());
            let until_failure = |block: Result<_, DataError>| block.map_err(|error| failure = Err(error)).ok();
            let texts: Vec<_> = blocks.map_while(until_failure).collect();
            let parse = |(text, _): &(Vec<u8>, Progress)| parse(text);
            let parts: Vec<_> = texts.par_iter().map(parse).collect();
            for (part, (_, progress)) in parts.into_iter().zip(texts) {
                let (part, lines) = part.map_err(|bad| bad.at(&path, lines_before))?;
                append(part, progress)?;
                lines_before += lines;
            }
            failure?;
        }
        Ok(())
    })
}

/// The next block of whole lines, which begins with `carried`.
fn next_block(source: &mut Source<'_>, carried: &mut Vec<u8>) -> Result<Option<Vec<u8>>, DataError> {
    let mut block = std::mem::take(carried);
    loop {
        let before = block.len();
        // A line longer than a block doubles it, so that the search for its end stays linear.
        let wanted = BLOCK_BYTES.max(before);
        let expected = source.byte_bound().min(wanted as u64) as usize;
        block.reserve_exact(expected.min(wanted) + 1);
        let read = source.read_up_to(wanted, &mut block)?;
        if read < wanted {
            if block.last().is_some_and(|&last| last != b'\n') {
                block.push(b'\n');
            }
            return Ok(Some(block).filter(|block| !block.is_empty()));
        }
        if let Some(end) = block[before..].iter().rposition(|&byte| byte == b'\n') {
            *carried = block[before + end + 1..].to_vec();
            block.truncate(before + end + 1);
            return Ok(Some(block));
        }
    }
}

/// The start of a file: at least its first two lines, if it has them, for [`parse_blocks`] to continue from.
pub(super) fn first_block(source: &mut Source<'_>) -> Result<Vec<u8>, DataError> {
    let mut text = Vec::new();
    loop {
        let read = source.read_up_to(BLOCK_BYTES.max(text.len()), &mut text)?;
        let lines = text.split(|&byte| byte == b'\n').count();
        if read == 0 || lines > 2 {
            if read == 0 && text.last().is_some_and(|&last| last != b'\n') {
                text.push(b'\n');
            }
            return Ok(text);
        }
    }
}
