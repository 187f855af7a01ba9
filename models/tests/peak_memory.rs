//! What loading takes beside the rows that come out: a set that fits in memory once is to be loadable. One test, since the
//! system tells the peak of the process.

use std::fs;
use std::path::Path;

use files::{digits, idx, npy, write, write_mnist};
use rounds_algorithms::problem::Features;
use rounds_algorithms::problem::synthetic::{synthetic_logistic, synthetic_mnist};
use rounds_models::data::load;

#[expect(dead_code, reason = "a part of the builders is for other test binaries")]
#[path = "all/files.rs"]
mod files;

/// Memory above which the allocator always asks the system, and gives back to it; in MiB.
const ROWS: usize = 40;
/// What readers take whatever the size of the file is: blocks of text and of bytes, their parsed parts, decoders.
const BUFFERS: f64 = 14.0;

/// A line of `/proc/self/status` in MiB.
fn status(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kibibytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes / 1024.0)
}

/// What `work` takes at its peak, beyond what there was, in MiB; `None` where the system does not tell.
fn peak<T>(work: impl FnOnce() -> T) -> Option<(T, f64)> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    let before = status("VmRSS:")?;
    let outcome = work();
    Some((outcome, status("VmHWM:")? - before))
}

/// Bytes that do not repeat soon, and pack about as images do.
fn pixels(count: usize) -> Vec<u8> {
    (0..count as u64)
        .map(|place| {
            let hash = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
            if place % 5 == 0 { hash as u8 & 15 } else { 0 }
        })
        .collect()
}

/// Puts a file in a packed one of its name and `.gz`, without a copy in memory: what the test frees would count.
fn pack(path: &Path) {
    let packed = fs::File::create(format!("{}.gz", path.display())).unwrap();
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    std::io::copy(&mut fs::File::open(path).unwrap(), &mut packed).unwrap();
    packed.finish().unwrap();
    fs::remove_file(path).unwrap();
}

/// Four files like MNIST's.
fn write_idx(folder: &Path) {
    let rows = (ROWS << 20) / 784;
    let images = |rows: usize| idx(8, &[rows as u32, 28, 28], &pixels(rows * 784));
    write_mnist(folder, [images(rows), digits(rows as u32), images(10), digits(10)]);
}

fn write_records(folder: &Path, name: &str, rows: usize) {
    let bytes: Vec<u8> = pixels(rows * 3_073)
        .chunks_mut(3_073)
        .enumerate()
        .flat_map(|(row, record)| {
            record[0] = (row % 10) as u8;
            record.to_vec()
        })
        .collect();
    write(folder, name, bytes);
}

fn text(rows: usize, line: impl Fn(usize, &mut String)) -> String {
    let mut text = String::new();
    (0..rows).for_each(|row| line(row, &mut text));
    text
}

#[test]
fn rows_are_held_once_while_they_are_read() {
    if peak(|| ()).is_none() {
        eprintln!("skipped: the system does not tell the peak of a process's memory");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_idx(&at.join("idx"));
    write_idx(&at.join("packed"));
    pack(&at.join("packed/train-images-idx3-ubyte"));
    let records = (ROWS << 20) / 3_072;
    write_records(at, "records/test_batch.bin", 10);
    write_records(at, "records/data_batch_1.bin", records);
    for part in 1..=3 {
        write_records(at, &format!("parts/data_batch_{part}.bin"), records);
    }
    write_records(at, "parts/test_batch.bin", 10);
    let table = (ROWS << 20) / 100;
    write(at, "bytes.npy", npy("|u1", false, &format!("{table}, 100"), &pixels(table * 100)));
    let floats: Vec<u8> = (0..ROWS << 18).flat_map(|place| ((place % 100) as f32).to_le_bytes()).collect();
    write(at, "floats.npy", npy("<f4", false, &format!("{}, 64", (ROWS << 18) / 64), &floats));
    drop(floats);
    let digit = |row: usize, column: usize| (row * 7 + column * column * 3) % 10;
    let text_rows = (ROWS << 18) / 32;
    let table = text(text_rows, |row, text| {
        (0..32).for_each(|column| text.extend(["0.", &digit(row, column).to_string(), ","]));
        text.push_str(["no\n", "yes\n"][row % 2]);
    });
    write(at, "table.csv", &table);
    write(at, "packed.csv", table);
    pack(&at.join("packed.csv"));
    let rows = text(text_rows, |row, text| {
        text.push_str(["-1", "1"][row % 2]);
        for column in 0..32 {
            let (index, value) = (column + 1, digit(row, column) + 1);
            text.extend([" ", &index.to_string(), ":", &value.to_string()]);
        }
        text.push('\n');
    });
    write(at, "table.svm", rows);

    // Blocks of text in flight are a few for each thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut failures = Vec::new();
    let mut judge = |name: &str, features: &Features, peak: f64, share: f64| {
        let rows = match features {
            Features::F32 { values, .. } => size_of_val(&**values),
            Features::U8 { rows, .. } => rows.memory().0.len(),
            Features::Sparse(_) => panic!("{name} is dense"),
        };
        let rows = rows as f64 / f64::from(1 << 20);
        eprintln!("{name}: {rows:.0} MiB of rows, at most {peak:.0} MiB");
        if peak > share * rows + BUFFERS {
            failures.push(format!("{name}: {peak:.0} MiB for {rows:.0} MiB of rows"));
        }
        assert!(peak > 0.9 * rows, "{name}: {peak} MiB for {rows} MiB of rows: nothing is measured");
    };
    for (name, share) in [
        ("idx", 1.0),
        ("packed", 1.0),
        ("records", 1.0),
        // One of three files more than the rows.
        ("parts", 1.34),
        ("bytes.npy", 1.0),
        ("floats.npy", 1.0),
        ("table.csv", 1.0),
        ("packed.csv.gz", 1.0),
        ("table.svm", 1.0),
    ] {
        let path = at.join(name);
        let loaded = || pool.install(|| load(path.to_str().unwrap(), None).unwrap());
        let (data, peak) = peak(loaded).unwrap();
        judge(name, data.train.features(), peak, share);
    }
    let (data, used) = peak(|| pool.install(|| synthetic_mnist(1).0)).unwrap();
    judge("synthetic-mnist", data.features(), used, 1.0);
    let (data, used) = peak(|| pool.install(|| synthetic_logistic(ROWS << 13, 32, 1))).unwrap();
    judge("synthetic-logistic", data.features(), used, 1.0);
    assert!(failures.is_empty(), "{failures:#?}");
}
