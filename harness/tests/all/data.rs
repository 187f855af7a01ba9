//! Every format with small files made here, every refusal, and the real files of ROUNDS_DATA where that is set.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rounds::data::{DataError, NAMES, TrainTest, load, load_declared};
use rounds_algorithms::problem::{Dataset, Features, Labels, SparseMatrix};

/// A folder that is removed with its files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes one file and loads it.
    fn load(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<TrainTest, DataError> {
        let path = self.write(name, bytes);
        load(path.to_str().unwrap(), None)
    }

    fn train(&self, name: &str, bytes: impl AsRef<[u8]>) -> Dataset {
        self.load(name, bytes).unwrap().train
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

/// Checks that the data are refused with one line that contains `parts`, separated by bars.
#[track_caller]
fn assert_says(result: Result<TrainTest, DataError>, parts: &str) {
    let message = result.expect_err("a refusal").to_string();
    assert!(!message.contains('\n'), "{message}");
    for part in parts.split('|') {
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

const IMAGES: &str = "train-images-idx3-ubyte";
const LABELS: &str = "train-labels-idx1-ubyte";

/// MNIST's layout with 3 training and 2 test images of 2 × 2.
fn small_mnist(pack: impl Fn(Vec<u8>) -> Vec<u8>, ending: &str) -> Folder {
    let folder = Folder::new();
    for (name, bytes) in [
        (IMAGES, idx(8, &[3, 2, 2], &(0..12).collect::<Vec<u8>>())),
        (LABELS, idx(8, &[3], &[2, 0, 1])),
        ("t10k-images-idx3-ubyte", idx(8, &[2, 2, 2], &[255; 8])),
        ("t10k-labels-idx1-ubyte", idx(8, &[2], &[1, 2])),
    ] {
        folder.write(&format!("{name}{ending}"), pack(bytes));
    }
    folder
}

#[test]
fn idx_bytes_stay_bytes_however_they_are_packed() {
    let plain = small_mnist(|bytes| bytes, "");
    for folder in [&plain, &small_mnist(gzip, ".gz"), &small_mnist(xz, ".xz")] {
        let data = folder.load_all().unwrap();
        let bytes: Vec<u8> = (0..12).collect();
        assert_eq!(data.train.features(), &Features::bytes(&bytes, 4, 1.0 / 255.0));
        assert_eq!(classes(&data.train).0, [2, 0, 1]);
        let test = data.test.unwrap();
        assert_eq!((test.classes(), classes(&test).0), (Some(3), [1, 2].as_slice()));
    }
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
        folder.write(IMAGES, idx(element, &[1, 2], &payload));
        folder.write("t10k-images-idx3-ubyte", idx(element, &[1, 2], &payload));
        folder.write(LABELS, idx(0x0c, &[1], &[0, 0, 0, 1]));
        folder.write("t10k-labels-idx1-ubyte", idx(0x0b, &[1], &[0, 1]));
        let data = folder.load_all().unwrap();
        assert_eq!(dense(&data.train), [-1.0, 2.0], "element {element:#x}");
        assert_eq!(classes(&data.train).0, [1]);
    }
}

#[test]
fn idx_files_that_do_not_keep_their_promises_are_refused() {
    let good = idx(8, &[3, 2, 2], &[0; 12]);
    let mut floats = [1f32; 12];
    floats[5] = f32::NAN;
    let nan: Vec<u8> = floats.iter().flat_map(|value| value.to_be_bytes()).collect();
    for (bytes, parts) in [
        (b"\x89PNG".to_vec(), "IDX|89"),
        (vec![0, 0, 7, 3], "IDX|07"),
        (vec![], "IDX"),
        (good[..6].to_vec(), "ends after 6 bytes|promises 16"),
        (good[..20].to_vec(), "ends after 20 bytes|promises 28"),
        ([&good[..], &[0]].concat(), "29 bytes|promises 28"),
        (gzip(&good[..20]), "ends after 20 bytes|promises 28"),
        (gzip([&good[..], &[0; 5]].concat()), "at least 29 bytes|promises 28"),
        (gzip(&good)[..25].to_vec(), "gzip stream|fetch"),
        (xz(&good)[..40].to_vec(), "xz stream|fetch"),
        (idx(8, &[0, 2, 2], &[]), "[0, 2, 2]"),
        (idx(8, &[u32::MAX; 8], &[]), "impossibly large"),
        (idx(8, &[u32::MAX, 784], &[0; 9]), "promises 3367254359292 bytes"),
        (gzip(idx(8, &[u32::MAX, 784], &[0; 9])), "unpack"),
        (idx(8, &[12], &[0; 12]), "two dimensions"),
        (
            idx(8, &[2, 2, 2], &[0; 8]),
            "2 rows|train-labels-idx1-ubyte has 3 labels",
        ),
        (idx(0x0d, &[3, 2, 2], &nan), "row 1, column 1|NaN"),
    ] {
        let folder = small_mnist(|bytes| bytes, "");
        folder.write(IMAGES, bytes);
        assert_says(folder.load_all(), &format!("{IMAGES}|{parts}"));
    }
    for (name, bytes, parts) in [
        (
            "t10k-images-idx3-ubyte",
            idx(8, &[2, 3], &[0; 6]),
            "3 columns|4 columns",
        ),
        (LABELS, idx(8, &[3, 1], &[0; 3]), "one dimension"),
        (LABELS, idx(0x0d, &[3], &[0; 12]), "integer labels"),
        (LABELS, idx(0x09, &[3], &[0, 255, 1]), "row 1|-1"),
        ("t10k-labels-idx1-ubyte", idx(8, &[2], &[0, 9]), "row 1|label 9|0 to 2"),
    ] {
        let folder = small_mnist(|bytes| bytes, "");
        folder.write(name, bytes);
        assert_says(folder.load_all(), &format!("{name}|{parts}"));
    }
    let (root, folder) = (Folder::new(), small_mnist(|bytes| bytes, ""));
    fs::rename(folder.path(), root.path().join("mnist")).unwrap();
    root.write("mnist/train-labels-idx1-ubyte", idx(8, &[3], &[2, 0, 10]));
    let undeclared = load_declared("mnist", Some(root.path()), None);
    assert_says(undeclared, "row 2|label 10|0 to 9");
    assert_says(load("mnist", Some(root.path())), "4 columns|schema declares 784");
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
    assert_eq!(Folder::new().train("x.bin.gz", gzip(&many)).len(), 200);
    for (name, bytes, parts) in [
        ("x.bin", record(3, 1)[..3000].to_vec(), "3000 bytes|3073"),
        ("x.bin", [record(3, 1), vec![0]].concat(), "3074 bytes|6146"),
        ("x.bin.gz", gzip(&record(3, 1)[..3000]), "3000 bytes|3073"),
        ("x.bin.xz", xz([]), "empty file"),
        ("x.bin", [record(3, 1), record(10, 1)].concat(), "row 1|label 10|0 to 9"),
    ] {
        assert_says(Folder::new().load(name, bytes), &format!("{name}|{parts}"));
    }
}

// LIBSVM

#[test]
fn libsvm_rows_keep_their_stored_values_and_empty_rows() {
    let text = "-1 3:1 11:-0.5\n+1\n# a comment\n\n+1 1:0.0 12:2e-1 # another\r\n-1 2:.5";
    for bytes in [text.into(), gzip(text), xz(text)] {
        let data = Folder::new().train("a9a", bytes);
        let sparse = Features::Sparse(SparseMatrix {
            offsets: vec![0, 2, 2, 4, 5],
            indices: vec![2, 10, 0, 11, 1],
            values: vec![1.0, -0.5, 0.0, 0.2, 0.5],
            columns: 12,
        });
        assert_eq!(data.features(), &sparse);
        assert_eq!(classes(&data), ([0, 1, 1, 0].as_slice(), vec!["-1", "1"]));
        assert_eq!(data.name(), "a9a");
    }
}

#[test]
fn libsvm_rows_are_dense_where_dense_is_smaller() {
    let folder = Folder::new();
    let data = folder.train("d.svm", "1 1:1 2:2\n2 1:3 2:4\n1 2:5\n");
    assert_eq!(dense(&data), [1.0, 2.0, 3.0, 4.0, 0.0, 5.0]);
    let data = folder.train("s", "1 4:1\n2 1:3\n");
    assert_eq!(data.features().format(), "sparse-f32");
    // Enough rows for several blocks; the last one is wider than all before.
    let rows: String = (0..40_000).map(|row| format!("{} 1:{row} 2:0.5\n", row % 2)).collect();
    let data = folder.train("wide", format!("{rows}1 3:7\n"));
    assert_eq!((data.len(), data.columns()), (40_001, 3));
    let expected = (0..40_000)
        .flat_map(|row| [row as f32, 0.5, 0.0])
        .chain([0.0, 0.0, 7.0]);
    assert!(dense(&data).iter().copied().eq(expected));
    // A file that begins dense and continues sparse is read as sparse.
    let data = folder.train("sparse", format!("{rows}1 1000000:7\n"));
    let shape = (data.features().format(), data.features().stored(), data.columns());
    assert_eq!(shape, ("sparse-f32", 80_001, 1_000_000));
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
    let unknown = folder.load("a", "1 4:1\n2 1:3\n");
    assert_says(unknown, "a.t.gz, row 1|label 4|1, 2");
    folder.write("a.t.gz", "2 1:1\n1 12:1\n");
    let data = folder.load("a", "1 4:1\n2 9:3\n").unwrap();
    assert_eq!((data.train.columns(), data.test.unwrap().columns()), (12, 12));
    folder.write("b.tst", "1 1:1 2:1\n1 3:1\n");
    let wider = folder.load("b.trn", "1 1:1 2:1\n2 1:3 2:3\n");
    assert_says(wider, "b.tst, line 2|at most 2|index 3");
}

#[test]
fn libsvm_text_that_is_wrong_is_refused_with_its_line() {
    // The first row leaves the rest sparse.
    let far: String = (0..60_000).map(|row| format!("1 9:{row}\n")).collect();
    for (text, parts) in [
        ("1 2:1 2:3", "line 2|index 2|at least 3"),
        ("\n1 3:1 2:3", "line 3|index 2|ascend"),
        ("1 0:1", "line 2|index 0|count from 1"),
        ("1 1:nan", "line 2|1:nan|number"),
        ("1 1:1e99", "line 2|1:1e99|finite"),
        ("1 1:", "line 2|\"1:\""),
        ("1 x:2", "line 2|\"x:2\"|index:value"),
        ("1 3", "line 2|\"3\"|index:value"),
        ("1 1:2x", "line 2|1:2x"),
        ("1:2 2:2", "line 2|label|\"1:2\""),
        ("1,2 2:2", "line 2|several labels"),
        ("inf 2:2", "line 2|label|inf"),
        ("1e99 2:2", "line 2|finite label"),
        ("1 99999999999:2", "line 2|99999999999"),
        ("1 4000000000:2", "4000000000|declare"),
        (&format!("{far}1 2:x"), "line 60002|2:x"),
    ] {
        assert_says(Folder::new().load("x", format!("1 9:1\n{text}\n")), parts);
    }
    assert_says(Folder::new().load("x", "1\n1\n"), "no features");
}

// CSV

#[test]
fn csv_finds_header_label_and_separator() {
    let folder = Folder::new();
    let expected = [1.0, 2.5, 3.0, -4e-1];
    for text in [
        "1,2.5,0\n3,-4e-1,1\n",
        "a,b,c\n1,2.5,0\n3,-4e-1,1\n",
        "label,b,c\n0,1,2.5\n1,3,-4e-1\n",
        "Label,0,1\n0,1,2.5\n1,3,-4e-1\n",
        "a;Target;c\r\n1;0;2.5\r\n\r\n3;1;-4e-1\r\n",
        "a\tY\tc\n1\t0\t2.5\n3\t1\t-4e-1",
        "\u{feff}\"a\",\"b, \"\"x\"\"\",c\n\"1\", 2.5 ,0\n3 ,\"-4e-1\" ,1\n",
    ] {
        for bytes in [text.into(), gzip(text), xz(text)] {
            let data = folder.train("table.csv", bytes);
            assert_eq!((dense(&data), data.columns()), (expected.as_slice(), 2), "{text:?}");
            assert_eq!(classes(&data), ([0, 1].as_slice(), vec!["0", "1"]), "{text:?}");
            assert_eq!(data.name(), "table");
        }
    }
    let data = folder.train("iris.csv", "5.1,0.2,setosa\n4.9,0.1,virginica\n5,0.3,setosa\n");
    assert_eq!(classes(&data), ([0, 1, 0].as_slice(), vec!["setosa", "virginica"]));
    let data = folder.train("regression.csv", "x,y\n5.1,0.25\n4.9,0.1\n");
    assert_eq!(data.labels(), &Labels::Values(vec![0.25, 0.1]));
}

#[test]
fn csv_rows_of_several_blocks_come_in_the_order_of_the_file() {
    let words = ["red", "green", "blue"];
    let text: String = (0..100_000)
        .map(|row| format!("{row},{:.3},{}\n", row as f32 / 8.0, words[row % 3]))
        .collect();
    let data = Folder::new().train("long.csv", text);
    let rows = dense(&data).chunks(2).enumerate();
    rows.for_each(|(row, x)| assert!(x[0] == row as f32 && (x[1] - row as f32 / 8.0).abs() < 1e-3));
    let (values, names) = classes(&data);
    let mut classes = values.iter().enumerate();
    assert!(classes.all(|(row, &class)| names[class as usize] == words[row % 3]));
}

#[test]
fn csv_that_is_wrong_is_refused_with_its_line() {
    let unique: String = (0..70_000).map(|row| format!("1,name{row}\n")).collect();
    for (text, parts) in [
        ("1,2,0\n1,2\n", "line 2|3 fields|2: \"1,2\""),
        ("a,b,c\n1,2,0\n\n1,2,0,4\n", "line 4|3 fields|4: "),
        ("1,2,0\n1,x,0\n", "line 2|column 2|\"x\""),
        ("1,2,0\n1,,0\n", "line 2|column 2|empty"),
        ("1,2,0\n1,NaN,0\n", "line 2|column 2|NaN"),
        ("1,2,0\n1,-inf,0\n", "line 2|column 2|-inf"),
        ("1,2,0\n1,1e39,0\n", "line 2|column 2|1e39|finite"),
        ("1,2,0\n1,2,yes\n", "line 2|label in column 3|yes"),
        ("1,2,0\n1,\"2,0\n", "line 2|quote"),
        ("1,2,0\n1,\"2\"x,0\n", "line 2|separator"),
        ("1,x,0\n1,2,0\n", "line 1|header"),
        ("1,2,0\r1,2,0\n", "line 1"),
        ("a,b,c\n", "no rows"),
        ("\"a,b\n1,2\n", "line 1|quote"),
        (&unique, "65536"),
    ] {
        assert_says(Folder::new().load("x.csv", text), parts);
    }
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
    // Rows (1, 2, 0) and (3, 4, 1); the last column is the label.
    let rows = [1u8, 2, 0, 3, 4, 1];
    let columns = [1u8, 3, 2, 4, 0, 1];
    let folder = Folder::new();
    for (fortran, values) in [(false, rows), (true, columns)] {
        for (descr, payload) in [
            ("|i1", values.to_vec()),
            ("<u2", values.map(|x| u16::from(x).to_le_bytes()).concat()),
            (">i2", values.map(|x| i16::from(x).to_be_bytes()).concat()),
            (">u4", values.map(|x| u32::from(x).to_be_bytes()).concat()),
            ("<i4", values.map(|x| i32::from(x).to_le_bytes()).concat()),
            ("<u8", values.map(|x| u64::from(x).to_le_bytes()).concat()),
            (">i8", values.map(|x| i64::from(x).to_be_bytes()).concat()),
            ("<f4", values.map(|x| f32::from(x).to_le_bytes()).concat()),
            (">f4", values.map(|x| f32::from(x).to_be_bytes()).concat()),
            ("<f8", values.map(|x| f64::from(x).to_le_bytes()).concat()),
            (">f8", values.map(|x| f64::from(x).to_be_bytes()).concat()),
        ] {
            let file = npy(descr, fortran, "2, 3", &payload);
            for file in [gzip(&file), file] {
                let data = folder.train("a.npy", file);
                assert_eq!(dense(&data), [1.0, 2.0, 3.0, 4.0], "{descr} {fortran}");
                assert_eq!(classes(&data).0, [0, 1]);
            }
        }
        let data = folder.train("a.npy", npy("|u1", fortran, "2, 3", &values));
        assert_eq!(data.features(), &Features::bytes(&[1, 2, 3, 4], 2, 1.0));
        let data = folder.train("a.npy", npy("|b1", fortran, "2, 3", &values));
        assert_eq!(dense(&data), [1.0; 4]);
        assert_eq!(classes(&data).0, [0, 1]);
    }
    for version in [2, 3] {
        let header = "{'shape': (2L, 3), \"descr\": \"|i1\", 'fortran_order': False}";
        let data = folder.train("a.npy", npy_with_header(version, header, &rows));
        assert_eq!(dense(&data), [1.0, 2.0, 3.0, 4.0]);
    }
    for columns in [3, 115, 784] {
        let value = |row: usize, column: usize| ((row * columns + column) * 31 % 251) as u8;
        let by_row: Vec<u8> = (0..5 * columns)
            .map(|place| value(place / columns, place % columns))
            .collect();
        let by_column: Vec<u8> = (0..5 * columns).map(|place| value(place % 5, place / 5)).collect();
        let y = npy("|u1", false, "5,", &[0, 1, 0, 1, 1]);
        let x = npy("|u1", true, &format!("5, {columns}"), &by_column);
        let data = folder.train("a.npz", npz(&[("x", x), ("y", y)], zip::CompressionMethod::Deflated));
        assert_eq!(data.features(), &Features::bytes(&by_row, columns, 1.0));
    }
}

#[test]
fn npz_archives_and_folders_of_arrays_are_read_by_the_names_of_their_arrays() {
    let labels = [7i64.to_le_bytes(), 3i64.to_le_bytes()].concat();
    let arrays = [
        ("x_train", npy("|u1", false, "2, 2, 2", &[0, 1, 2, 3, 4, 5, 6, 7])),
        ("y_train", npy("<i8", false, "2,", &labels)),
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
        let expected = Features::bytes(&[0, 1, 2, 3, 4, 5, 6, 7], 4, 1.0 / 255.0);
        assert_eq!(data.train.features(), &expected);
        assert_eq!(classes(&data.train), ([1, 0].as_slice(), vec!["3", "7"]));
        assert_eq!(classes(&data.test.unwrap()).0, [1]);
        assert_eq!(from_folder.train.digest(), data.train.digest());
    }
    let upper = [
        ("X", npy("<f4", false, "1, 1", &1f32.to_le_bytes())),
        ("y", npy("<f4", false, "1,", &0.5f32.to_le_bytes())),
    ];
    let data = folder.train("xy.npz", npz(&upper, zip::CompressionMethod::Deflated));
    assert_eq!(data.labels(), &Labels::Values(vec![0.5]));
}

#[test]
fn npy_that_is_wrong_is_refused() {
    let ones = [1f32.to_le_bytes(); 6].concat();
    let nan = [1f32, f32::NAN, 0.0, 1.0].map(f32::to_le_bytes).concat();
    let structured = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}";
    let huge = |fortran| npy("<f4", fortran, "2000000000, 3000000000", &ones);
    for (bytes, parts) in [
        (npy("<f4", false, "2, 3", &ones[..20]), "a.npy|ends after|promises"),
        (
            npy("<f4", false, "2, 3", &[&ones[..], &[0]].concat()),
            "there are at least|promises",
        ),
        (huge(false), "promises 240000000000000000"),
        (gzip(huge(false)), "unpack"),
        (gzip(huge(true)), "unpack"),
        (npy("<f2", false, "2, 3", &ones), "<f2|astype"),
        (npy("|O", false, "2, 3", &ones), "|O|astype"),
        (npy_with_header(1, structured, &ones), "('a', '<f4')"),
        (npy("<f4", false, "0, 3", &[]), "[0, 3]"),
        (npy("<f4", false, "", &ones[..4]), "shape []"),
        (npy("<f4", false, "6,", &ones), "two dimensions"),
        (npy("<f4", true, "1, 2, 3", &ones), "ascontiguousarray"),
        (npy("<f4", false, "6, 1", &ones), "two columns"),
        (npy_with_header(9, "{}", &ones), "version 9"),
        (npy_with_header(1, "{'descr': '<f4'}", &ones), "dictionary"),
        (npy_with_header(1, &"x".repeat(20_000), &ones), "20001 bytes of header"),
        (b"\x93NUMPY\x01".to_vec(), "NPY file|93"),
        (b"\x93NUMPY\x01\x00\xff\x00{".to_vec(), "ends after 11 bytes|265"),
        (npy("<f4", false, "2, 2", &nan), "row 0|NaN"),
        (npy("<f4", false, "1, 4", &nan), "row 0, column 1"),
    ] {
        assert_says(Folder::new().load("a.npy", bytes), parts);
    }
}

#[test]
fn npz_that_is_wrong_or_a_bomb_is_refused() {
    let x = npy("|u1", false, "2, 2", &[1; 4]);
    let y = npy("|u1", false, "2,", &[0, 1]);
    let three = npy("|u1", false, "3,", &[0; 3]);
    let nan = npy("<f4", false, "2,", &[f32::NAN.to_le_bytes(); 2].concat());
    // 64 MB of zeros in 64 kB.
    let bomb = npy("|u1", false, "8000, 8000", &vec![0; 64_000_000]);
    let archive = |arrays: &[(&str, &Vec<u8>)]| {
        let arrays: Vec<_> = arrays.iter().map(|(name, bytes)| (*name, (*bytes).clone())).collect();
        npz(&arrays, zip::CompressionMethod::Deflated)
    };
    let good = archive(&[("x", &x), ("y", &y)]);
    for (bytes, parts) in [
        (archive(&[("z", &x)]), "the arrays z|x_train"),
        (archive(&[("x", &x), ("y", &three)]), "2 rows|3 labels"),
        (archive(&[("x", &x), ("y", &x)]), "y.npy|argmax"),
        (good[..good.len() - 10].to_vec(), "zip stream"),
        (archive(&[("x", &x), ("y", &nan)]), "y.npy|row 0|NaN"),
        (archive(&[("x", &bomb), ("y", &y)]), "x.npy|would unpack|plain"),
    ] {
        assert_says(Folder::new().load("a.npz", bytes), parts);
    }
    // Promises that no file of this size can keep: refused before memory is reserved for them.
    for (fortran, shape) in [
        (true, "1099511627776, 1024"),
        (false, "1099511627776, 1024"),
        (true, "4294967296, 4294967296"),
        (false, "4294967296, 4294967295"),
    ] {
        let promise = npy("|u1", fortran, shape, &[1; 4]);
        let bytes = archive(&[("x", &promise), ("y", &y)]);
        assert_says(Folder::new().load("a.npz", bytes), "x.npy|would unpack");
    }
}

// Names and folders

#[test]
fn a_missing_data_set_is_named_with_the_nearest_name() {
    let folder = Folder::new();
    for (name, parts) in [
        ("mnits", "mnits|did you mean mnist?"),
        ("Cifar-10", "did you mean cifar10?"),
        (
            "qqqq",
            "called \"qqqq\"; known names: synthetic-mnist, synthetic-logistic",
        ),
        ("no/such/file.csv", "no/such/file.csv|not found"),
        ("mnist", "train-images-idx3-ubyte"),
        ("cifar10", "data_batch_1.bin"),
        ("a9a", "a9a, plain, .gz or .xz"),
        ("covtype", "covtype"),
    ] {
        assert_says(load(name, Some(folder.path())), parts);
    }
    assert_says(
        load("mnist", Some(&folder.path().join("nowhere"))),
        "nowhere|--data-dir",
    );
    assert_says(folder.load_all(), "no files");
    folder.write("notes.txt", "hello world\n");
    assert_says(folder.load_all(), "a folder with notes.txt|train.*");
    for (name, bytes, parts) in [
        ("notes.txt", b"hello world\n".to_vec(), "notes.txt|LIBSVM"),
        ("empty", vec![], "empty file"),
        ("blank", b"\n\n".to_vec(), "no row"),
        ("zeros", vec![1, 2, 0, 0], "magic number"),
        ("images", idx(8, &[1, 1], &[1]), "single IDX file"),
        ("bomb.csv.gz", gzip(vec![b'1'; 3 << 20]), "would unpack"),
    ] {
        assert_says(folder.load(name, bytes), parts);
    }
    if std::env::var_os("ROUNDS_DATA").is_none() {
        assert_says(load("mnist", None), "--data-dir|ROUNDS_DATA|synthetic-mnist");
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
    assert_says(folder.load_all(), "test.csv.gz|3 columns|2 columns");
}

#[test]
fn generated_data_needs_no_files() {
    let shape = |name: &str| {
        let train = load(name, None).unwrap().train;
        (train.len(), train.columns(), train.classes())
    };
    assert_eq!(shape("quadratic"), (100, 100, None));
    assert_eq!(shape("synthetic-logistic"), (100_000, 20, Some(2)));
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
            [49_990, 22, 49_990 * 22],
            &[45_137, 4_853],
            Some([91_701, 91_701 * 22, 8_712]),
        ),
    ];
    for (name, [rows, columns, stored], positives, expected_test) in sets {
        let data = load_declared(name, Some(&root), None).unwrap();
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
