//! Damaged data files: 3,000 a format, and 10,000 archives (10,000 of each in `make test-all`), made from good ones by flipping, cutting,
//! inserting and repeating, before or after they are packed. A reader answers each with data or with one message; it does not panic, hang,
//! or allocate what the file's size does not justify.

use std::path::Path;
use std::sync::Mutex;

use files::{MNIST, digits, gzip, idx, npy, npz, xz};

use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rounds_models::data::load;

#[expect(dead_code, reason = "a part of the builders is for other test binaries")]
#[path = "all/files.rs"]
mod files;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// One test at a time, since the peak is that of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Fixed cost of a reader: buffers of decoders, blocks of text, stacks of threads, messages.
const FIXED: usize = 4 << 20;
/// Bytes that a byte of a plain file may cost: parsed values, and room for what is expected to follow.
const A_BYTE: usize = 64;
/// … and that a byte of a packed one may: it may unpack to 200 bytes, of four-byte values and room for more.
const A_PACKED_BYTE: usize = 200 * 16;

/// What is done to the bytes of a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Overwrite(prop::sample::Index, Vec<u8>),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Truncate(prop::sample::Index),
}

impl Damage {
    fn strategy() -> impl Strategy<Value = Self> {
        let place = any::<prop::sample::Index>();
        // Bytes that mean something to one of the formats: signs of numbers, separators, extreme sizes.
        let tokens = "nan inf - 1e400 1e-400 , \" : # 0:1 4294967295:1 99999999999:1 1000000:1 x ( 999999999999, <f8 |O True ' } ;";
        let tokens: Vec<Vec<u8>> = tokens
            .split(' ')
            .chain(["\n", "\n\n", " ", "\0", "\r", "\t"])
            .map(|token| token.as_bytes().to_vec())
            .chain([[0xff; 4], [0; 4], [0x7f, 0xff, 0xff, 0xff], [0x80, 0, 0, 0]].map(Vec::from))
            .chain([vec![0xff; 8]])
            .collect();
        let bytes = prop_oneof![prop::sample::select(tokens), prop::collection::vec(any::<u8>(), 1..9)];
        prop_oneof![
            (place.clone(), 1..=255u8).prop_map(|(place, mask)| Self::Flip(place, mask)),
            (place.clone(), bytes.clone()).prop_map(|(place, bytes)| Self::Overwrite(place, bytes)),
            (place.clone(), bytes).prop_map(|(place, bytes)| Self::Insert(place, bytes)),
            (place.clone(), 1..100usize).prop_map(|(place, length)| Self::Remove(place, length)),
            (place.clone(), 1..100usize).prop_map(|(place, length)| Self::Repeat(place, length)),
            place.prop_map(Self::Truncate),
        ]
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        let index = |place: &prop::sample::Index| place.index(bytes.len() + 1);
        let until = |start: usize, length: usize| (start + length).min(bytes.len());
        match self {
            Self::Flip(place, mask) => {
                let at = index(place);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= mask;
                }
            }
            Self::Overwrite(place, with) => {
                let start = index(place);
                let end = until(start, with.len());
                bytes[start..end].copy_from_slice(&with[..end - start]);
            }
            Self::Insert(place, what) => {
                let at = index(place);
                bytes.splice(at..at, what.iter().copied());
            }
            Self::Remove(place, length) => {
                let start = index(place);
                bytes.drain(start..until(start, *length));
            }
            Self::Repeat(place, length) => {
                let start = index(place);
                let piece = bytes[start..until(start, *length)].to_vec();
                bytes.splice(start..start, piece);
            }
            Self::Truncate(place) => bytes.truncate(index(place)),
        }
    }
}

/// The packing of a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Xz,
}

#[derive(Clone, Debug)]
struct Case {
    good: usize,
    inside: Vec<Damage>,
    packing: Packing,
    outside: Vec<Damage>,
}

fn cases(good: usize) -> impl Strategy<Value = Case> {
    let damage = || prop::collection::vec(Damage::strategy(), 0..4);
    let packing = prop_oneof![12 => Just(Packing::Plain), 6 => Just(Packing::Gzip), 1 => Just(Packing::Xz)];
    let outside = prop_oneof![2 => Just(Vec::new()).boxed(), 1 => damage().boxed()];
    (0..good, damage(), packing, outside).prop_map(|(good, inside, packing, outside)| Case {
        good,
        inside,
        packing,
        outside,
    })
}

/// Damaged files of a format: 3,000 reach nearly every message that 10,000 reach, but of archives, whose parts are damaged more seldom.
const FILES: u32 = 3_000;
const ARCHIVES: u32 = 10_000;

/// Feeds `count` damaged versions of the `good` files to a reader, or as many as the variable ROUNDS_PAIRS says: `place` writes one into a
/// folder and says what to load.
fn survive(count: u32, good: &[Vec<u8>], place: impl Fn(&Path, &[u8]) -> String) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // In memory where there is such a folder: a file that is written over thousands of times waits for the disk each time.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let (mut loaded, mut refused) = (0, 0);
    let mut check = |case: &Case| {
        let mut bytes = good[case.good].clone();
        case.inside.iter().for_each(|damage| damage.apply(&mut bytes));
        let mut bytes = match case.packing {
            Packing::Plain => bytes,
            Packing::Gzip => gzip(bytes),
            Packing::Xz => xz(bytes),
        };
        case.outside.iter().for_each(|damage| damage.apply(&mut bytes));
        let what = place(folder.path(), &bytes);
        let plain = case.packing == Packing::Plain;
        let allowed = FIXED + if plain { A_BYTE } else { A_PACKED_BYTE } * bytes.len();
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        let result = load(&what, None);
        let peak = ALLOCATED.peak_usage().saturating_sub(before);
        match result {
            Ok(_) => loaded += 1,
            Err(error) => {
                refused += 1;
                let message = error.to_string();
                let named = message.contains(folder.path().to_str().unwrap());
                assert!(named, "the message names the file: {message}");
                let short = message.len() < 1000 && !message.contains('\n');
                assert!(short, "one short line: {message}");
            }
        }
        let (size, packing) = (bytes.len(), case.packing);
        assert!(peak <= allowed, "{peak} bytes allocated for a file of {size} ({packing:?})");
    };
    // Start the thread pool, and see the good files load.
    for good in 0..good.len() {
        check(&Case { good, inside: vec![], packing: Packing::Plain, outside: vec![] });
    }
    let count = std::env::var("ROUNDS_PAIRS").map_or(count, |count| count.parse().expect("a number of files"));
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let seed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(config, seed);
    let check = std::cell::RefCell::new(check);
    let run = runner.run(&cases(good.len()), |case| {
        (check.borrow_mut())(&case);
        Ok(())
    });
    run.unwrap();
    assert!(
        loaded > count / 100 && refused > count / 10,
        "the damage is neither fatal nor harmless: {loaded} loaded, {refused} refused"
    );
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    files::write(folder, name, bytes).to_str().unwrap().to_owned()
}

#[test]
fn idx_files() {
    let images = idx(8, &[30, 4, 4], &(0..30 * 16).map(|byte| byte as u8).collect::<Vec<_>>());
    let floats: Vec<u8> = (0..90).flat_map(|value| (value as f32 / 7.0).to_be_bytes()).collect();
    let place = |folder: &Path, bytes: &[u8]| {
        // The damaged bytes are images or labels, whichever they still look like.
        let is_labels = bytes.get(3) == Some(&1);
        let good = [idx(8, &[30, 1], &(0..30).collect::<Vec<_>>()), digits(30)];
        let (images, labels) = if is_labels { (&*good[0], bytes) } else { (bytes, &*good[1]) };
        for (name, bytes) in MNIST.into_iter().zip([images, labels, images, &good[1]]) {
            write(folder, name, bytes);
        }
        folder.to_str().unwrap().to_owned()
    };
    survive(FILES, &[images, idx(0x0d, &[30, 3], &floats), digits(30)], place);
}

#[test]
fn cifar_records() {
    let byte = |byte| if byte % 3073 == 0 { byte / 3073 } else { byte } as u8;
    let records: Vec<u8> = (0..3 * 3073).map(byte).collect();
    let place = |folder: &Path, bytes: &[u8]| write(folder, "train_1.bin", bytes);
    survive(FILES, &[records], place);
}

#[test]
fn libsvm_text() {
    let sparse = |row| format!("{} {}:1 {}:0.25\n", row % 3, row % 7 + 1, row + 9);
    let dense = |row| format!("{} 1:{row} 2:-1.5e-3 3:{:.6} # end\n", row % 2 * 2 - 1, row as f32 / 7.0);
    let sparse: String = (0..60).map(sparse).collect();
    let dense: String = (0..60).map(dense).collect();
    let place = |folder: &Path, bytes: &[u8]| write(folder, "data.libsvm", bytes);
    survive(FILES, &[sparse.into_bytes(), dense.into_bytes()], place);
}

#[test]
fn csv_text() {
    let plain = |row| format!("{row},-1.5e-3,{:.6},{}\n", row as f32 / 7.0, row % 2);
    let plain: String = (0..60).map(plain).collect();
    let quoted: String = (0..60).map(|row| format!("\"{row}\";2.5 ; word{}\r\n", row % 4)).collect();
    let good = [plain.clone(), format!("a,\"b, c\",d,label\n{plain}"), quoted].map(String::into_bytes);
    let place = |folder: &Path, bytes: &[u8]| write(folder, "data.csv", bytes);
    survive(FILES, &good, place);
}

#[test]
fn npy_arrays() {
    let floats: Vec<u8> = (0..60).flat_map(|value| ((value % 5) as f32).to_le_bytes()).collect();
    let doubles: Vec<u8> = (0..60).flat_map(|value| ((value % 5) as f64).to_be_bytes()).collect();
    let good = [
        npy("<f4", false, "20, 3", &floats),
        npy(">f8", true, "20, 3", &doubles),
        npy("|u1", false, "20, 3", &floats[..60]),
    ];
    let place = |folder: &Path, bytes: &[u8]| write(folder, "data.npy", bytes);
    survive(FILES, &good, place);
}

#[test]
fn npz_archives() {
    let floats: Vec<u8> = (0..60).flat_map(|value| ((value % 5) as f32).to_le_bytes()).collect();
    let labels: Vec<u8> = (0..20).map(|row| row % 3).collect();
    let arrays = [("x", npy("<f4", false, "20, 3", &floats)), ("y", npy("|u1", false, "20,", &labels))];
    let good = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated].map(|method| npz(&arrays, method));
    let place = |folder: &Path, bytes: &[u8]| write(folder, "data.npz", bytes);
    survive(ARCHIVES, &good, place);
}
