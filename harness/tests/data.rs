//! Every format with small files made here, every refusal, and the real files of ROUNDS_DATA where that is set.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rounds::data::csv::{CsvOptions, LabelColumn};
use rounds::data::labels::Target;
use rounds::data::libsvm::{LibsvmOptions, Storage};
use rounds::data::{DataError, LoadOptions, NAMES, Preparation, TrainTest, load, load_with};
use rounds_algorithms::problem::{Dataset, DatasetError, Features, Labels};
use rounds_kernels::features::Norm;

/// A folder that is removed with its files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes one file and loads it.
    fn load(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<TrainTest, DataError> {
        self.load_with(name, bytes, &LoadOptions::default())
    }

    fn load_with(&self, name: &str, bytes: impl AsRef<[u8]>, options: &LoadOptions) -> Result<TrainTest, DataError> {
        let path = self.write(name, bytes);
        load_with(path.to_str().unwrap(), options)
    }

    fn load_all(&self) -> Result<TrainTest, DataError> {
        load(self.path().to_str().unwrap(), None)
    }
}

fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn dense(data: &Dataset) -> &[f32] {
    let Features::F32 { values, .. } = data.features() else {
        panic!("dense f32 rows, not {}", data.features().format())
    };
    values
}

fn classes(data: &Dataset) -> (&[u32], Vec<&str>) {
    let Labels::Classes { values, names, .. } = data.labels() else {
        panic!("classes")
    };
    (values, names.iter().flatten().map(String::as_str).collect())
}

/// The message of a refusal, which is one line.
fn refusal(result: Result<TrainTest, DataError>) -> String {
    let message = result.expect_err("a refusal").to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[track_caller]
fn assert_says(result: Result<TrainTest, DataError>, parts: &[&str]) {
    let message = refusal(result);
    for part in parts {
        assert!(message.contains(part), "{part:?} in {message:?}");
    }
}

// IDX

fn idx(element: u8, shape: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, element, shape.len() as u8];
    shape.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
    bytes.extend(payload);
    bytes
}

/// MNIST's layout with 3 training and 2 test images of 2 × 2.
fn small_mnist(pack: impl Fn(Vec<u8>) -> Vec<u8>, ending: &str) -> Folder {
    let folder = Folder::new();
    folder.write(
        &format!("train-images-idx3-ubyte{ending}"),
        pack(idx(8, &[3, 2, 2], &(0..12).collect::<Vec<u8>>())),
    );
    folder.write(
        &format!("train-labels-idx1-ubyte{ending}"),
        pack(idx(8, &[3], &[2, 0, 1])),
    );
    folder.write(
        &format!("t10k-images-idx3-ubyte{ending}"),
        pack(idx(8, &[2, 2, 2], &[255; 8])),
    );
    folder.write(&format!("t10k-labels-idx1-ubyte{ending}"), pack(idx(8, &[2], &[1, 2])));
    folder
}

#[test]
fn idx_bytes_stay_bytes_however_they_are_packed() {
    let mut digests = Vec::new();
    for folder in [
        small_mnist(|bytes| bytes, ""),
        small_mnist(gzip, ".gz"),
        small_mnist(xz, ".xz"),
    ] {
        let data = folder.load_all().unwrap();
        let bytes: Vec<u8> = (0..12).collect();
        assert_eq!(data.train.features(), &Features::bytes(&bytes, 4, 1.0 / 255.0));
        assert_eq!(classes(&data.train).0, [2, 0, 1]);
        let test = data.test.unwrap();
        assert_eq!(
            (test.len(), test.classes(), classes(&test).0),
            (2, Some(3), [1, 2].as_slice())
        );
        digests.push(data.train.digest());
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}

#[test]
fn idx_of_every_element_type_is_read() {
    let cases: [(u8, Vec<u8>); 5] = [
        (0x09, [-1i8, 2].iter().flat_map(|x| x.to_be_bytes()).collect()),
        (0x0b, [-1i16, 2].iter().flat_map(|x| x.to_be_bytes()).collect()),
        (0x0c, [-1i32, 2].iter().flat_map(|x| x.to_be_bytes()).collect()),
        (0x0d, [-1f32, 2.0].iter().flat_map(|x| x.to_be_bytes()).collect()),
        (0x0e, [-1f64, 2.0].iter().flat_map(|x| x.to_be_bytes()).collect()),
    ];
    for (element, payload) in cases {
        let folder = small_mnist(|bytes| bytes, "");
        folder.write("train-images-idx3-ubyte", idx(element, &[1, 2], &payload));
        folder.write("t10k-images-idx3-ubyte", idx(element, &[1, 2], &payload));
        folder.write("train-labels-idx1-ubyte", idx(0x0c, &[1], &[0, 0, 0, 1]));
        folder.write("t10k-labels-idx1-ubyte", idx(0x0b, &[1], &[0, 1]));
        let data = folder.load_all().unwrap();
        assert_eq!(dense(&data.train), [-1.0, 2.0], "element {element:#x}");
        assert_eq!(classes(&data.train).0, [1]);
    }
}

#[test]
fn idx_files_that_do_not_keep_their_promises_are_refused() {
    let with = |name: &str, bytes: &[u8]| {
        let folder = small_mnist(|bytes| bytes, "");
        folder.write(name, bytes);
        folder.load_all()
    };
    let images = "train-images-idx3-ubyte";
    let labels = "train-labels-idx1-ubyte";
    let good = idx(8, &[3, 2, 2], &[0; 12]);
    assert_says(with(images, b"\x89PNG"), &[images, "IDX", "89"]);
    assert_says(with(images, &[0, 0, 7, 3]), &[images, "IDX", "07"]);
    assert_says(with(images, &[]), &[images, "IDX"]);
    assert_says(with(images, &good[..6]), &[images, "ends after 6 bytes", "promises 16"]);
    assert_says(
        with(images, &good[..20]),
        &[images, "ends after 20 bytes", "promises 28"],
    );
    assert_says(
        with(images, &[&good[..], &[0]].concat()),
        &[images, "29 bytes", "promises 28"],
    );
    assert_says(
        with(images, &gzip(&good[..20])),
        &[images, "ends after 20 bytes", "promises 28"],
    );
    assert_says(
        with(images, &gzip([&good[..], &[0; 5]].concat())),
        &[images, "at least 29 bytes", "promises 28"],
    );
    assert_says(with(images, &gzip(&good)[..25]), &[images, "gzip stream", "fetch"]);
    assert_says(with(images, &xz(&good)[..40]), &[images, "xz stream", "fetch"]);
    assert_says(with(images, &idx(8, &[0, 2, 2], &[])), &[images, "[0, 2, 2]"]);
    assert_says(
        with(images, &idx(8, &[u32::MAX; 8], &[])),
        &[images, "impossibly large"],
    );
    assert_says(
        with(images, &idx(8, &[u32::MAX, 784], &[0; 9])),
        &[images, "promises 3367254359292 bytes"],
    );
    assert_says(
        with(images, &gzip(idx(8, &[u32::MAX, 784], &[0; 9]))),
        &[images, "unpack"],
    );
    assert_says(with(images, &idx(8, &[12], &[0; 12])), &[images, "two dimensions"]);
    assert_says(
        with(images, &idx(8, &[2, 2, 2], &[0; 8])),
        &[images, "2 rows", labels, "3 labels"],
    );
    assert_says(
        with("t10k-images-idx3-ubyte", &idx(8, &[2, 3], &[0; 6])),
        &["t10k-images", "3 columns", "4 columns"],
    );
    assert_says(with(labels, &idx(8, &[3, 1], &[0; 3])), &[labels, "one dimension"]);
    assert_says(with(labels, &idx(0x0d, &[3], &[0; 12])), &[labels, "integer labels"]);
    assert_says(with(labels, &idx(0x09, &[3], &[0, 255, 1])), &[labels, "row 1", "-1"]);
    assert_says(
        with("t10k-labels-idx1-ubyte", &idx(8, &[2], &[0, 9])),
        &["t10k-labels", "row 1", "label 9", "0 to 2"],
    );
    let nan: Vec<u8> = (0..12)
        .flat_map(|value| if value == 5 { f32::NAN } else { 1.0 }.to_be_bytes())
        .collect();
    let nan = idx(0x0d, &[3, 2, 2], &nan);
    assert_says(with(images, &nan), &[images, "row 1, column 1", "NaN"]);
    let folder = small_mnist(|bytes| bytes, "");
    fs::rename(folder.path(), folder.path().with_extension("mnist")).unwrap();
    let moved = folder.path().with_extension("mnist");
    let root = Folder::new();
    fs::rename(moved, root.path().join("mnist")).unwrap();
    root.write("mnist/train-labels-idx1-ubyte", idx(8, &[3], &[2, 0, 10]));
    let undeclared = LoadOptions {
        data_dir: Some(root.path().into()),
        ..LoadOptions::default()
    };
    assert_says(load_with("mnist", &undeclared), &["row 2", "label 10", "0 to 9"]);
    assert_says(load("mnist", Some(root.path())), &["4 columns", "schema declares 784"]);
}

// CIFAR-10

#[test]
fn cifar_records_of_several_files_are_one_data_set() {
    let record = |label: u8, fill: u8| [vec![label], vec![fill; 3072]].concat();
    let folder = Folder::new();
    folder.write("data_batch_1.bin", [record(3, 1), record(9, 2)].concat());
    folder.write("data_batch_2.bin.xz", xz(record(0, 3)));
    folder.write("data_batch_3.bin.gz", gzip(record(5, 4)));
    folder.write("test_batch.bin", record(7, 5));
    folder.write("batches.meta.txt", "airplane\n");
    let data = folder.load_all().unwrap();
    let fills: Vec<u8> = (1..=4).flat_map(|fill| [fill; 3072]).collect();
    assert_eq!(data.train.features(), &Features::bytes(&fills, 3072, 1.0 / 255.0));
    assert_eq!(classes(&data.train).0, [3, 9, 0, 5]);
    assert_eq!(data.test.unwrap().classes(), Some(10));
    let many: Vec<u8> = (0..200).flat_map(|row| record(row as u8 % 10, row as u8)).collect();
    assert_eq!(Folder::new().load("x.bin.gz", gzip(&many)).unwrap().train.len(), 200);

    let refused = |name: &str, bytes: &[u8]| Folder::new().load(name, bytes);
    assert_says(
        refused("x.bin", &record(3, 1)[..3000]),
        &["x.bin", "3000 bytes", "3073"],
    );
    assert_says(
        refused("x.bin", &[record(3, 1), vec![0]].concat()),
        &["x.bin", "3074 bytes", "6146"],
    );
    assert_says(
        refused("x.bin.gz", &gzip(&record(3, 1)[..3000])),
        &["x.bin", "3000 bytes", "3073"],
    );
    assert_says(refused("x.bin.xz", &xz([])), &["x.bin", "empty file"]);
    assert_says(
        refused("x.bin", &[record(3, 1), record(10, 1)].concat()),
        &["row 1", "label 10", "0 to 9"],
    );
}

// LIBSVM

fn libsvm(storage: Storage) -> LoadOptions {
    LoadOptions {
        libsvm: LibsvmOptions {
            storage,
            ..LibsvmOptions::default()
        },
        ..LoadOptions::default()
    }
}

#[test]
fn libsvm_rows_keep_their_stored_values_and_empty_rows() {
    let text = "-1 3:1 11:-0.5\n+1\n# a comment\n\n+1 1:0.0 12:2e-1 # another\r\n-1 2:.5";
    for bytes in [text.into(), gzip(text), xz(text)] {
        let data = Folder::new()
            .load_with("a9a", bytes, &libsvm(Storage::Sparse))
            .unwrap()
            .train;
        let Features::Sparse {
            offsets,
            indices,
            values,
            columns,
        } = data.features()
        else {
            panic!("sparse")
        };
        assert_eq!((offsets.as_slice(), *columns), ([0, 2, 2, 4, 5].as_slice(), 12));
        assert_eq!(
            (indices.as_slice(), values.as_slice()),
            ([2, 10, 0, 11, 1].as_slice(), [1.0, -0.5, 0.0, 0.2, 0.5].as_slice())
        );
        assert_eq!(classes(&data), ([0, 1, 1, 0].as_slice(), vec!["-1", "1"]));
        assert_eq!(data.name(), "a9a");
    }
}

#[test]
fn libsvm_rows_are_dense_where_dense_is_smaller_or_asked_for() {
    let folder = Folder::new();
    let data = folder.load("d.svm", "1 1:1 2:2\n2 1:3 2:4\n1 2:5\n").unwrap().train;
    assert_eq!(dense(&data), [1.0, 2.0, 3.0, 4.0, 0.0, 5.0]);
    let text = "1 4:1\n2 1:3\n";
    assert_eq!(folder.load("s", text).unwrap().train.features().format(), "sparse-f32");
    let asked = folder.load_with("s", text, &libsvm(Storage::Dense)).unwrap().train;
    assert_eq!(dense(&asked), [0.0, 0.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0]);
    // Enough rows for several blocks; the last one is wider than all before.
    let rows: String = (0..40_000).map(|row| format!("{} 1:{row} 2:0.5\n", row % 2)).collect();
    let data = folder.load("wide", format!("{rows}1 3:7\n")).unwrap().train;
    assert_eq!((data.len(), data.columns()), (40_001, 3));
    let values = dense(&data);
    assert!(
        values
            .chunks(3)
            .take(40_000)
            .enumerate()
            .all(|(row, x)| *x == [row as f32, 0.5, 0.0])
    );
    assert_eq!(&values[120_000..], [0.0, 0.0, 7.0]);
    // What begins dense and goes on sparse is read as sparse.
    let data = folder.load("sparse", format!("{rows}1 1000000:7\n")).unwrap().train;
    assert_eq!(
        (data.features().format(), data.features().stored(), data.columns()),
        ("sparse-f32", 80_001, 1_000_000)
    );
    assert_says(
        folder.load_with("sparse", format!("{rows}1 1000000:7\n"), &libsvm(Storage::Dense)),
        &["dense f32", "sparse"],
    );
}

#[test]
fn libsvm_test_rows_follow_the_training_rows() {
    let folder = Folder::new();
    folder.write("a.t.gz", gzip("2 1:1\n1 5:1\n"));
    let data = folder.load("a", "1 4:1\n2 1:3\n3 9:1\n").unwrap();
    let test = data.test.unwrap();
    assert_eq!((data.train.columns(), test.columns(), test.classes()), (9, 9, Some(3)));
    assert_eq!(classes(&test).0, [1, 0]);
    folder.write("a.t.gz", gzip("2 1:1\n4 5:1\n"));
    assert_says(
        folder.load("a", "1 4:1\n2 1:3\n"),
        &["a.t.gz", "label 4 in row 1", "1, 2"],
    );
    folder.write("a.t.gz", "2 1:1\n1 12:1\n");
    let data = folder.load("a", "1 4:1\n2 9:3\n").unwrap();
    assert_eq!((data.train.columns(), data.test.unwrap().columns()), (12, 12));
    folder.write("b.tst", "1 1:1 2:1\n1 3:1\n");
    assert_says(
        folder.load("b.trn", "1 1:1 2:1\n2 1:3 2:3\n"),
        &["b.tst, line 2", "at most 2", "index 3"],
    );
}

#[test]
fn libsvm_text_that_is_wrong_is_refused_with_its_line() {
    let refused = |text: &str| Folder::new().load_with("x", text, &libsvm(Storage::Sparse));
    assert_says(refused("1 1:1\n1 2:1 2:3\n"), &["line 2", "index 2", "at least 3"]);
    assert_says(refused("1 1:1\n\n1 3:1 2:3\n"), &["line 3", "index 2", "ascend"]);
    assert_says(refused("1 0:1\n"), &["line 1", "index 0", "count from 1"]);
    assert_says(refused("1 1:nan\n"), &["line 1", "1:nan", "number"]);
    assert_says(refused("1 1:1\n1 1:1e99\n"), &["line 2", "1:1e99", "finite"]);
    assert_says(refused("1 1:1\n1 1:\n"), &["line 2", "\"1:\""]);
    assert_says(refused("1 1:1\n1 x:2\n"), &["line 2", "\"x:2\"", "index:value"]);
    assert_says(refused("1 1:1\n1 3\n"), &["line 2", "\"3\"", "index:value"]);
    assert_says(refused("1 1:1\n1 1:2x\n"), &["line 2", "1:2x"]);
    assert_says(refused("1 1:1\n1:2 2:2\n"), &["line 2", "label", "\"1:2\""]);
    assert_says(refused("1 1:1\n1,2 2:2\n"), &["line 2", "several labels"]);
    assert_says(refused("1 1:1\ninf 2:2\n"), &["line 2", "label", "inf"]);
    assert_says(refused("1 1:1\n1e99 2:2\n"), &["line 2", "finite label"]);
    assert_says(refused("1 1:1\n1 99999999999:2\n"), &["line 2", "99999999999"]);
    assert_says(refused("1 1:1\n1 4000000000:2\n"), &["4000000000", "declare"]);
    let far: String = (0..60_000).map(|row| format!("1 1:{row}\n")).collect();
    assert_says(refused(&format!("{far}1 2:x\n")), &["line 60001", "2:x"]);
    let declared = |columns| LoadOptions {
        libsvm: LibsvmOptions {
            storage: Storage::Sparse,
            columns: Some(columns),
            first_index: 0,
        },
        ..LoadOptions::default()
    };
    assert_says(
        Folder::new().load_with("x", "1 0:1 7:1\n", &declared(7)),
        &["line 1", "at most 6", "index 7"],
    );
    let data = Folder::new()
        .load_with("x", "1 0:1 6:1\n", &declared(4_000_000_000))
        .unwrap()
        .train;
    assert_eq!(data.columns(), 4_000_000_000);
    assert_says(refused("1\n1\n"), &["no features"]);
    let words = Folder::new().load_with(
        "x",
        "1 1:1\n",
        &LoadOptions {
            target: Target::Values,
            ..LoadOptions::default()
        },
    );
    assert_eq!(words.unwrap().train.labels(), &Labels::Values(vec![1.0]));
}

// CSV

#[test]
fn csv_finds_header_label_and_separator() {
    let folder = Folder::new();
    let expected = [1.0, 2.5, 3.0, -4e-1];
    for (text, label) in [
        ("1,2.5,0\n3,-4e-1,1\n", LabelColumn::Automatic),
        ("a,b,c\n1,2.5,0\n3,-4e-1,1\n", LabelColumn::Automatic),
        ("label,b,c\n0,1,2.5\n1,3,-4e-1\n", LabelColumn::Automatic),
        ("Label,0,1\n0,1,2.5\n1,3,-4e-1\n", LabelColumn::Automatic),
        ("a;b;c\r\n1;0;2.5\r\n\r\n3;1;-4e-1\r\n", LabelColumn::Name("b".into())),
        ("a\tb\tc\n1\t0\t2.5\n3\t1\t-4e-1", LabelColumn::Index(1)),
        (
            "\u{feff}\"a\",\"b, \"\"x\"\"\",c\n\"1\", 2.5 ,0\n3 ,\"-4e-1\" ,1\n",
            LabelColumn::Automatic,
        ),
    ] {
        let options = LoadOptions {
            csv: CsvOptions {
                label,
                ..CsvOptions::default()
            },
            ..LoadOptions::default()
        };
        for bytes in [text.into(), gzip(text), xz(text)] {
            let data = folder.load_with("table.csv", bytes, &options).unwrap().train;
            assert_eq!((dense(&data), data.columns()), (expected.as_slice(), 2), "{text:?}");
            assert_eq!(classes(&data), ([0, 1].as_slice(), vec!["0", "1"]), "{text:?}");
            assert_eq!(data.name(), "table");
        }
    }
    let data = folder
        .load("iris.csv", "5.1,0.2,setosa\n4.9,0.1,virginica\n5,0.3,setosa\n")
        .unwrap()
        .train;
    assert_eq!(classes(&data), ([0, 1, 0].as_slice(), vec!["setosa", "virginica"]));
    let data = folder.load("regression.csv", "x,y\n5.1,0.25\n4.9,0.1\n").unwrap().train;
    assert_eq!(data.labels(), &Labels::Values(vec![0.25, 0.1]));
    let header = LoadOptions {
        csv: CsvOptions {
            header: Some(true),
            ..CsvOptions::default()
        },
        ..LoadOptions::default()
    };
    assert_eq!(
        folder
            .load_with("numbers.csv", "1,2\n3,1\n", &header)
            .unwrap()
            .train
            .len(),
        1
    );
}

#[test]
fn csv_rows_of_several_blocks_come_in_the_order_of_the_file() {
    let words = ["red", "green", "blue"];
    let text: String = (0..100_000)
        .map(|row| format!("{row},{:.3},{}\n", row as f32 / 8.0, words[row % 3]))
        .collect();
    let data = Folder::new().load("long.csv", text).unwrap().train;
    assert!(
        dense(&data)
            .chunks(2)
            .enumerate()
            .all(|(row, x)| x[0] == row as f32 && (x[1] - row as f32 / 8.0).abs() < 1e-3)
    );
    let (values, names) = classes(&data);
    assert!(
        values
            .iter()
            .enumerate()
            .all(|(row, &class)| names[class as usize] == words[row % 3])
    );
}

#[test]
fn csv_that_is_wrong_is_refused_with_its_line() {
    let refused = |text: &str| Folder::new().load("x.csv", text);
    assert_says(refused("1,2,0\n1,2\n"), &["line 2", "3 fields", "2: \"1,2\""]);
    assert_says(refused("a,b,c\n1,2,0\n\n1,2,0,4\n"), &["line 4", "3 fields", "4: "]);
    assert_says(refused("1,2,0\n1,x,0\n"), &["line 2", "column 2", "\"x\""]);
    assert_says(refused("1,2,0\n1,,0\n"), &["line 2", "column 2", "empty"]);
    assert_says(refused("1,2,0\n1,NaN,0\n"), &["line 2", "column 2", "NaN"]);
    assert_says(refused("1,2,0\n1,-inf,0\n"), &["line 2", "column 2", "-inf"]);
    assert_says(refused("1,2,0\n1,1e39,0\n"), &["line 2", "column 2", "1e39", "finite"]);
    assert_says(refused("1,2,0\n1,2,yes\n"), &["line 2", "label in column 3", "yes"]);
    assert_says(refused("1,2,0\n1,\"2,0\n"), &["line 2", "quote"]);
    assert_says(refused("1,2,0\n1,\"2\"x,0\n"), &["line 2", "separator"]);
    assert_says(refused("1,x,0\n1,2,0\n"), &["line 1", "header"]);
    assert_says(refused("1,2,0\r1,2,0\n"), &["line 1"]);
    assert_says(refused("a,b,c\n"), &["no rows"]);
    assert_says(refused("\"a,b\n1,2\n"), &["line 1", "quote"]);
    let asked = |label: LabelColumn, header| {
        let csv = CsvOptions {
            label,
            header,
            delimiter: None,
        };
        Folder::new().load_with(
            "x.csv",
            "a,b\n1,2\n",
            &LoadOptions {
                csv,
                ..LoadOptions::default()
            },
        )
    };
    assert_says(asked(LabelColumn::Name("c".into()), None), &["\"c\"", "a, b"]);
    assert_says(asked(LabelColumn::Name("b".into()), Some(false)), &["no header"]);
    assert_says(asked(LabelColumn::Index(2), None), &["place 2", "0 to 1"]);
    let unique: String = (0..70_000).map(|row| format!("1,name{row}\n")).collect();
    assert_says(refused(&unique), &["65536"]);
    let target = LoadOptions {
        target: Target::Values,
        ..LoadOptions::default()
    };
    assert_says(Folder::new().load_with("x.csv", "1,yes\n2,no\n", &target), &["words"]);
}

// NPY and NPZ

fn npy(descr: &str, fortran: bool, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({shape}), }}");
    npy_with_header(1, &header, bytes)
}

fn npy_with_header(version: u8, header: &str, bytes: &[u8]) -> Vec<u8> {
    let length = header.len() as u32 + 1;
    let length = if version == 1 {
        (length as u16).to_le_bytes().to_vec()
    } else {
        length.to_le_bytes().to_vec()
    };
    [
        b"\x93NUMPY",
        &[version, 0][..],
        &length,
        header.as_bytes(),
        b"\n",
        bytes,
    ]
    .concat()
}

fn npz(arrays: &[(&str, Vec<u8>)], method: zip::CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        archive
            .start_file(
                format!("{name}.npy"),
                zip::write::SimpleFileOptions::default().compression_method(method),
            )
            .unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn npy_of_every_dtype_and_order_is_read() {
    fn bytes<const N: usize>(elements: [[u8; N]; 6]) -> Vec<u8> {
        elements.concat()
    }
    // Rows (1, 2, 0) and (3, 4, 1); the last column is the label.
    let rows = [1u8, 2, 0, 3, 4, 1];
    let columns = [1u8, 3, 2, 4, 0, 1];
    let folder = Folder::new();
    for (fortran, values) in [(false, rows), (true, columns)] {
        for (descr, payload) in [
            ("|i1", values.to_vec()),
            ("<u2", bytes(values.map(|x| u16::from(x).to_le_bytes()))),
            (">i2", bytes(values.map(|x| i16::from(x).to_be_bytes()))),
            (">u4", bytes(values.map(|x| u32::from(x).to_be_bytes()))),
            ("<i4", bytes(values.map(|x| i32::from(x).to_le_bytes()))),
            ("<u8", bytes(values.map(|x| u64::from(x).to_le_bytes()))),
            (">i8", bytes(values.map(|x| i64::from(x).to_be_bytes()))),
            ("<f4", bytes(values.map(|x| f32::from(x).to_le_bytes()))),
            (">f4", bytes(values.map(|x| f32::from(x).to_be_bytes()))),
            ("<f8", bytes(values.map(|x| f64::from(x).to_le_bytes()))),
            (">f8", bytes(values.map(|x| f64::from(x).to_be_bytes()))),
        ] {
            for file in [
                npy(descr, fortran, "2, 3", &payload),
                gzip(npy(descr, fortran, "2, 3", &payload)),
            ] {
                let data = folder.load("a.npy", file).unwrap().train;
                assert_eq!(dense(&data), [1.0, 2.0, 3.0, 4.0], "{descr} {fortran}");
                assert_eq!(classes(&data).0, [0, 1]);
            }
        }
        let data = folder
            .load("a.npy", npy("|u1", fortran, "2, 3", &values))
            .unwrap()
            .train;
        assert_eq!(data.features(), &Features::bytes(&[1, 2, 3, 4], 2, 1.0));
        let data = folder
            .load("a.npy", npy("|b1", fortran, "2, 3", &values))
            .unwrap()
            .train;
        assert_eq!(
            (dense(&data), classes(&data).0),
            ([1.0; 4].as_slice(), [0, 1].as_slice())
        );
    }
    for version in [2, 3] {
        let header = "{'shape': (2L, 3), \"descr\": \"|i1\", 'fortran_order': False}";
        assert_eq!(
            dense(
                &folder
                    .load("a.npy", npy_with_header(version, header, &rows))
                    .unwrap()
                    .train
            ),
            [1.0, 2.0, 3.0, 4.0]
        );
    }
}

#[test]
fn npz_archives_and_folders_of_arrays_are_read_by_the_names_of_their_arrays() {
    let images = npy("|u1", false, "2, 2, 2", &[0, 1, 2, 3, 4, 5, 6, 7]);
    let arrays = [
        ("x_train", images.clone()),
        (
            "y_train",
            npy("<i8", false, "2,", &[7i64.to_le_bytes(), 3i64.to_le_bytes()].concat()),
        ),
        ("x_test", npy("|u1", false, "1, 2, 2", &[9; 4])),
        ("y_test", npy("|u1", false, "1, 1", &[7])),
    ];
    let folder = Folder::new();
    for (name, bytes) in &arrays {
        folder.write(&format!("arrays/{name}.npy"), bytes);
    }
    let from_folder = load(folder.path().join("arrays").to_str().unwrap(), None).unwrap();
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let data = folder.load("mnist.npz", npz(&arrays, method)).unwrap();
        assert_eq!(
            data.train.features(),
            &Features::bytes(&[0, 1, 2, 3, 4, 5, 6, 7], 4, 1.0 / 255.0)
        );
        assert_eq!(classes(&data.train), ([1, 0].as_slice(), vec!["3", "7"]));
        let test = data.test.unwrap();
        assert_eq!((test.len(), classes(&test).0), (1, [1].as_slice()));
        assert_eq!(from_folder.train.digest(), data.train.digest());
    }
    let upper = [
        ("X", npy("<f4", false, "1, 1", &1f32.to_le_bytes())),
        ("y", npy("<f4", false, "1,", &0.5f32.to_le_bytes())),
    ];
    let data = folder
        .load("xy.npz", npz(&upper, zip::CompressionMethod::Deflated))
        .unwrap();
    assert_eq!(
        (data.train.labels(), data.test.is_none()),
        (&Labels::Values(vec![0.5]), true)
    );
}

#[test]
fn npy_that_is_wrong_is_refused() {
    let folder = Folder::new();
    let refused = |bytes: Vec<u8>| folder.load("a.npy", bytes);
    let ones = [1f32.to_le_bytes(); 6].concat();
    assert_says(
        refused(npy("<f4", false, "2, 3", &ones[..20])),
        &["a.npy", "ends after", "promises"],
    );
    assert_says(
        refused(npy("<f4", false, "2, 3", &[&ones[..], &[0]].concat())),
        &["there are at least", "promises"],
    );
    assert_says(
        refused(npy("<f4", false, "2000000000, 3000000000", &ones)),
        &["promises 240000000000000000"],
    );
    assert_says(
        refused(gzip(npy("<f4", false, "2000000000, 3000000000", &ones))),
        &["unpack"],
    );
    assert_says(
        refused(gzip(npy("<f4", true, "2000000000, 3000000000", &ones))),
        &["unpack"],
    );
    assert_says(refused(npy("<f2", false, "2, 3", &ones)), &["<f2", "astype"]);
    assert_says(refused(npy("|O", false, "2, 3", &ones)), &["|O", "astype"]);
    assert_says(
        refused(npy_with_header(
            1,
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            &ones,
        )),
        &["('a', '<f4')"],
    );
    assert_says(refused(npy("<f4", false, "0, 3", &[])), &["[0, 3]"]);
    assert_says(refused(npy("<f4", false, "", &ones[..4])), &["shape []"]);
    assert_says(refused(npy("<f4", false, "6,", &ones)), &["two dimensions"]);
    assert_says(refused(npy("<f4", true, "1, 2, 3", &ones)), &["ascontiguousarray"]);
    assert_says(refused(npy("<f4", false, "6, 1", &ones)), &["two columns"]);
    assert_says(refused(npy_with_header(9, "{}", &ones)), &["version 9"]);
    assert_says(refused(npy_with_header(1, "{'descr': '<f4'}", &ones)), &["dictionary"]);
    assert_says(
        refused(npy_with_header(1, &"x".repeat(20_000), &ones)),
        &["20001 bytes of header"],
    );
    assert_says(refused(b"\x93NUMPY\x01".to_vec()), &["NPY file", "93"]);
    assert_says(
        refused(b"\x93NUMPY\x01\x00\xff\x00{".to_vec()),
        &["ends after 11 bytes", "265"],
    );
    let nan = [1f32, f32::NAN, 0.0, 1.0].map(f32::to_le_bytes).concat();
    assert_says(refused(npy("<f4", false, "2, 2", &nan)), &["row 0", "NaN"]);
    assert_says(refused(npy("<f4", false, "1, 4", &nan)), &["row 0, column 1"]);
}

#[test]
fn npz_that_is_wrong_or_a_bomb_is_refused() {
    let folder = Folder::new();
    let x = npy("|u1", false, "2, 2", &[1; 4]);
    let y = npy("|u1", false, "2,", &[0, 1]);
    let deflated = zip::CompressionMethod::Deflated;
    let good = npz(&[("x", x.clone()), ("y", y.clone())], deflated);
    assert_says(
        folder.load("a.npz", npz(&[("z", x.clone())], deflated)),
        &["the arrays z", "x_train"],
    );
    assert_says(
        folder.load(
            "a.npz",
            npz(&[("x", x.clone()), ("y", npy("|u1", false, "3,", &[0; 3]))], deflated),
        ),
        &["2 rows", "3 labels"],
    );
    assert_says(
        folder.load("a.npz", npz(&[("x", x.clone()), ("y", x.clone())], deflated)),
        &["y.npy", "argmax"],
    );
    assert_says(folder.load("a.npz", &good[..good.len() - 10]), &["zip stream"]);
    let nan = npy("<f4", false, "2,", &[f32::NAN.to_le_bytes(); 2].concat());
    assert_says(
        folder.load("a.npz", npz(&[("x", x), ("y", nan)], deflated)),
        &["y.npy", "row 0", "NaN"],
    );
    // 64 MB of zeros in 64 kB.
    let bomb = npy("|u1", false, "8000, 8000", &vec![0; 64_000_000]);
    assert_says(
        folder.load("a.npz", npz(&[("x", bomb), ("y", y.clone())], deflated)),
        &["x.npy", "would unpack", "plain"],
    );
    // Promises that no file of this size can keep: refused before room is made for them.
    for (fortran, shape) in [
        (true, "1099511627776, 1024"),
        (false, "1099511627776, 1024"),
        (true, "4294967296, 4294967296"),
        (false, "4294967296, 4294967295"),
    ] {
        let promise = npy("|u1", fortran, shape, &[1; 4]);
        assert_says(
            folder.load("a.npz", npz(&[("x", promise), ("y", y.clone())], deflated)),
            &["x.npy", "would unpack"],
        );
    }
}

#[test]
fn arrays_in_fortran_order_are_turned_into_rows_that_lie_apart() {
    let folder = Folder::new();
    for columns in [3, 115, 784] {
        let value = |row: usize, column: usize| ((row * columns + column) * 31 % 251) as u8;
        let by_row: Vec<u8> = (0..5 * columns)
            .map(|place| value(place / columns, place % columns))
            .collect();
        let by_column: Vec<u8> = (0..5 * columns).map(|place| value(place % 5, place / 5)).collect();
        let y = npy("|u1", false, "5,", &[0, 1, 0, 1, 1]);
        let x = npy("|u1", true, &format!("5, {columns}"), &by_column);
        let file = npz(&[("x", x), ("y", y)], zip::CompressionMethod::Deflated);
        let data = folder.load("a.npz", file).unwrap().train;
        assert_eq!(data.features(), &Features::bytes(&by_row, columns, 1.0));
    }
}

// Names, folders, preparation

#[test]
fn what_is_not_there_is_named_with_the_nearest_name() {
    assert_says(load("mnits", None), &["mnits", "did you mean mnist?"]);
    assert_says(load("Cifar-10", None), &["did you mean cifar10?"]);
    assert_says(load("qqqq", None), &["synthetic-mnist, synthetic-logistic"]);
    assert!(!refusal(load("qqqq", None)).contains("did you mean"));
    assert_says(load("no/such/file.csv", None), &["no/such/file.csv", "not found"]);
    let folder = Folder::new();
    assert_says(
        load("mnist", Some(&folder.path().join("nowhere"))),
        &["nowhere", "--data-dir"],
    );
    assert_says(load("mnist", Some(folder.path())), &["train-images-idx3-ubyte"]);
    assert_says(load("cifar10", Some(folder.path())), &["data_batch_1.bin"]);
    assert_says(load("a9a", Some(folder.path())), &["a9a, plain, .gz or .xz"]);
    assert_says(load("covtype", Some(folder.path())), &["covtype"]);
    assert_says(folder.load_all(), &["no files"]);
    folder.write("notes.txt", "hello world\n");
    assert_says(folder.load_all(), &["a folder with notes.txt", "train.*"]);
    assert_says(folder.load("notes.txt", "hello world\n"), &["notes.txt", "LIBSVM"]);
    assert_says(folder.load("empty", ""), &["empty file"]);
    assert_says(folder.load("blank", "\n\n"), &["no row"]);
    assert_says(folder.load("zeros", [1, 2, 0, 0]), &["magic number"]);
    assert_says(folder.load("images", idx(8, &[1, 1], &[1])), &["single IDX file"]);
    assert_says(folder.load("bomb.csv.gz", gzip(vec![b'1'; 3 << 20])), &["would unpack"]);
    if std::env::var_os("ROUNDS_DATA").is_none() {
        assert_says(load("mnist", None), &["--data-dir", "ROUNDS_DATA", "synthetic-mnist"]);
    }
}

#[test]
fn folders_with_train_and_test_files_are_read() {
    let folder = Folder::new();
    folder.write("train.csv", "1,2,0\n3,4,1\n");
    folder.write("test.csv.gz", gzip("5,6,1\n"));
    let data = folder.load_all().unwrap();
    assert_eq!((data.train.len(), classes(&data.test.unwrap()).0), (2, [1].as_slice()));
    folder.write("test.csv.gz", gzip("5,6,7,1\n"));
    assert_says(folder.load_all(), &["test.csv.gz", "3 columns", "2 columns"]);
}

#[test]
fn features_are_scaled_and_clipped_alike_in_training_and_test_rows() {
    let folder = Folder::new();
    folder.write("x.t", "1 1:30 2:40\n");
    let data = folder.load("x", "1 1:3 2:4\n2 1:0.3 2:0.4\n").unwrap();
    let data = data
        .prepare(Preparation {
            scale: Some(2.0),
            clip: Some((Norm::L2, 5.0)),
        })
        .unwrap();
    for (data, rows) in [
        (&data.train, vec![3.0, 4.0, 0.6, 0.8]),
        (data.test.as_ref().unwrap(), vec![3.0, 4.0]),
    ] {
        assert!(dense(data).iter().zip(rows).all(|(a, b)| (a - b).abs() < 1e-5));
        assert_eq!(data.feature_bound(), Some((Norm::L2, 5.0)));
    }
    let refused = data.prepare(Preparation {
        scale: Some(f32::NAN),
        clip: None,
    });
    assert!(matches!(refused, Err(DatasetError::NotPositive { .. })));
}

#[test]
fn generated_data_needs_no_files() {
    let quadratic = load("quadratic", None).unwrap();
    assert_eq!(
        (
            quadratic.train.len(),
            quadratic.train.columns(),
            quadratic.train.classes()
        ),
        (100, 100, None)
    );
    let logistic = load("synthetic-logistic", None).unwrap();
    assert_eq!((logistic.train.len(), logistic.train.columns()), (100_000, 20));
    assert!(NAMES.iter().all(|named| !named.about.is_empty()));
}

/// Rows, columns, stored values and label counts as the notes on the files state them.
type Expected = (&'static str, [usize; 3], &'static [usize], Option<[usize; 3]>);

#[test]
fn real_files_hold_what_their_notes_say() {
    let Some(root) = std::env::var_os("ROUNDS_DATA") else {
        println!("skipped: ROUNDS_DATA is not set");
        return;
    };
    let root = PathBuf::from(root);
    let counts = |data: &Dataset| {
        let mut counts = vec![0; data.classes().unwrap()];
        classes(data).0.iter().for_each(|&class| counts[class as usize] += 1);
        counts
    };
    let mnist = load("mnist", Some(&root)).unwrap();
    let test = mnist.test.unwrap();
    assert_eq!(
        (mnist.train.len(), test.len(), mnist.train.columns()),
        (60_000, 10_000, 784)
    );
    assert_eq!(
        counts(&mnist.train),
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    );
    assert_eq!(counts(&test), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]);

    let cifar = load("cifar10", Some(&root)).unwrap();
    let test = cifar.test.unwrap();
    assert_eq!(
        (cifar.train.len(), test.len(), cifar.train.columns()),
        (50_000, 10_000, 3072)
    );
    assert_eq!((counts(&cifar.train), counts(&test)), (vec![5000; 10], vec![1000; 10]));
    let Features::U8 { rows, .. } = cifar.train.features() else {
        panic!("bytes")
    };
    for (channel, mean) in [0.4914, 0.4822, 0.4465].into_iter().enumerate() {
        let planes = rows.iter().flat_map(|row| &row[1024 * channel..1024 * (channel + 1)]);
        let sum: u64 = planes.map(|&byte| u64::from(byte)).sum();
        assert!(
            (sum as f64 / (50_000.0 * 1024.0 * 255.0) - mean).abs() < 5e-5,
            "channel {channel}"
        );
    }

    // Name, rows, columns, stored values, class counts; then rows, stored values and positives of the test file.
    let sets: [Expected; 5] = [
        (
            "a9a",
            [32_561, 123, 451_592],
            &[24_720, 7_841],
            Some([16_281, 225_731, 3_846]),
        ),
        ("w8a", [49_749, 300, 579_586], &[48_270, 1_479], None),
        ("mushrooms", [8_124, 112, 170_604], &[], None),
        ("phishing", [11_055, 68, 331_650], &[], None),
        (
            "ijcnn1",
            [49_990, 22, 49_990 * 13],
            &[45_137, 4_853],
            Some([91_701, 91_701 * 13, 8_712]),
        ),
    ];
    for (name, [rows, columns, stored], positives, expected_test) in sets {
        let options = LoadOptions {
            data_dir: Some(root.clone()),
            ..libsvm(Storage::Sparse)
        };
        let data = load_with(name, &options).unwrap();
        assert_eq!(
            (data.train.len(), data.train.columns(), data.train.features().stored()),
            (rows, columns, stored),
            "{name}"
        );
        assert_eq!(data.train.classes(), Some(2), "{name}");
        if !positives.is_empty() {
            assert_eq!(counts(&data.train), positives, "{name}");
        }
        if let Some([rows, stored, positive]) = expected_test {
            let test = data.test.unwrap();
            assert_eq!(
                (test.len(), test.columns(), test.features().stored()),
                (rows, columns, stored),
                "{name}.t"
            );
            assert_eq!(counts(&test)[1], positive, "{name}.t");
        }
    }
    for (name, [rows, columns, classes], test_rows) in [
        ("german", [1_000, 24, 2], None),
        ("letter", [15_000, 16, 26], Some(5_000)),
        ("pendigits", [7_494, 16, 10], Some(3_498)),
        ("reuters", [7_770, 8_315, 2], Some(3_299)),
    ] {
        let data = load(name, Some(&root)).unwrap();
        assert_eq!(
            (data.train.len(), data.train.columns(), data.train.classes()),
            (rows, columns, Some(classes)),
            "{name}"
        );
        assert_eq!(data.test.map(|test| test.len()), test_rows, "{name}");
    }
    let covtype = load("covtype", Some(&root)).unwrap().train;
    assert_eq!((covtype.len(), covtype.columns()), (92_962, 54));
    assert_eq!(counts(&covtype), [33_894, 45_328, 5_721, 439, 1_519, 2_779, 3_282]);
    assert_eq!(classes(&covtype).1, ["1", "2", "3", "4", "5", "6", "7"]);
}
