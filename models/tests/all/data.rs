//! Every format with small files made here, every refusal, and the real files of ROUNDS_DATA where that is set.

use std::fs;
use std::path::PathBuf;

use rounds_algorithms::parallel::partition::leaf_range;
use rounds_algorithms::problem::{Dataset, Features, Labels, SparseMatrix};
use rounds_models::data::{Explained, NAMES, Request, TrainTest, load, load_declared, part};

use crate::files::{Folder, MNIST, digits, gzip, idx, npy, npy_with_header, npz, write_mnist, xz};

/// Writes one file and loads it.
fn loaded(name: &str, bytes: impl AsRef<[u8]>) -> Result<TrainTest, Explained> {
    loaded_in(&Folder::new(), name, bytes)
}

fn loaded_in(folder: &Folder, name: &str, bytes: impl AsRef<[u8]>) -> Result<TrainTest, Explained> {
    load(folder.write(&(name.to_owned() + ending(bytes.as_ref())), bytes).to_str().unwrap(), None)
}

/// The ending of a name that says how these bytes are packed.
fn ending(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x1f, 0x8b, ..] => ".gz",
        [0xfd, b'7', ..] => ".xz",
        _ => "",
    }
}

fn train(name: &str, bytes: impl AsRef<[u8]>) -> Dataset {
    loaded(name, bytes).unwrap().train
}

fn dense(data: &Dataset) -> &[f32] {
    let Features::F32 { values, .. } = data.features() else {
        panic!("dense f32 rows, not {}", data.features().format())
    };
    values
}

fn classes(data: &Dataset) -> (&[u32], Vec<&str>) {
    let Labels::Classes { values, names, .. } = data.labels() else { panic!("classes") };
    (values, names.iter().flatten().map(String::as_str).collect())
}

/// Checks that the data are refused with one line that contains `parts`, separated by bars.
#[track_caller]
fn assert_says(result: Result<TrainTest, Explained>, parts: &str) {
    let message = result.expect_err("a refusal").to_string();
    assert!(!message.contains('\n'), "{message}");
    for part in parts.split('|') {
        assert!(message.contains(part), "{part:?} in {message:?}");
    }
}

// IDX

const IMAGES: &str = MNIST[0];
const LABELS: &str = MNIST[1];

/// MNIST's layout with 3 training and 2 test images of 2 × 2.
fn small_mnist() -> Folder {
    let folder = Folder::new();
    let images = idx(8, &[3, 2, 2], &(0..12).collect::<Vec<u8>>());
    let test = [idx(8, &[2, 2, 2], &[255; 8]), idx(8, &[2], &[1, 2])];
    let [test_images, test_labels] = test;
    write_mnist(folder.path(), [images, idx(8, &[3], &[2, 0, 1]), test_images, test_labels]);
    folder
}

#[test]
fn idx_bytes_stay_bytes_however_they_are_packed() {
    let packings: [(&str, fn(Vec<u8>) -> Vec<u8>); 3] = [("", |bytes| bytes), (".gz", gzip), (".xz", xz)];
    for (ending, pack) in packings {
        let folder = small_mnist();
        for name in MNIST {
            let plain = folder.path().join(name);
            let bytes = fs::read(&plain).unwrap();
            fs::remove_file(plain).unwrap();
            folder.write(&format!("{name}{ending}"), pack(bytes));
        }
        let data = load(folder.name(), None).unwrap();
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
        let folder = Folder::new();
        let images = || idx(element, &[1, 2], &payload);
        let labels = [idx(0x0c, &[1], &[0, 0, 0, 1]), idx(0x0b, &[1], &[0, 1])];
        let [labels, test_labels] = labels;
        write_mnist(folder.path(), [images(), labels, images(), test_labels]);
        let data = load(folder.name(), None).unwrap();
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
    for (name, bytes, parts) in [
        (IMAGES, b"\x89PNG".to_vec(), "IDX|89"),
        (IMAGES, vec![0, 0, 7, 3], "IDX|07"),
        (IMAGES, vec![], "IDX"),
        (IMAGES, good[..6].to_vec(), "ends after 6 bytes|promises 16"),
        (IMAGES, good[..20].to_vec(), "ends after 20 bytes|promises 28"),
        (IMAGES, [&good[..], &[0]].concat(), "29 bytes|promises 28"),
        (IMAGES, gzip(&good[..20]), "ends after 20 bytes|promises 28"),
        (IMAGES, gzip([&good[..], &[0; 5]].concat()), "at least 29 bytes|promises 28"),
        (IMAGES, gzip(&good)[..25].to_vec(), "gzip stream|fetch"),
        (IMAGES, xz(&good)[..40].to_vec(), "xz stream|fetch"),
        (IMAGES, idx(8, &[0, 2, 2], &[]), "[0, 2, 2]"),
        (IMAGES, idx(8, &[u32::MAX; 8], &[]), "impossibly large"),
        (IMAGES, idx(8, &[u32::MAX, 784], &[0; 9]), "promises 3367254359292 bytes"),
        (IMAGES, gzip(idx(8, &[u32::MAX, 784], &[0; 9])), "unpack"),
        (IMAGES, idx(8, &[12], &[0; 12]), "two dimensions"),
        (IMAGES, idx(8, &[2, 2, 2], &[0; 8]), "2 rows|train-labels-idx1-ubyte has 3 labels"),
        (IMAGES, idx(0x0d, &[3, 2, 2], &nan), "row 2, column 2|NaN"),
        ("t10k-images-idx3-ubyte", idx(8, &[2, 3], &[0; 6]), "3 columns|4 columns"),
        (LABELS, idx(8, &[3, 1], &[0; 3]), "one dimension"),
        (LABELS, idx(0x0d, &[3], &[0; 12]), "integer labels"),
        (LABELS, idx(0x09, &[3], &[0, 255, 1]), "row 2|-1"),
        ("t10k-labels-idx1-ubyte", idx(8, &[2], &[0, 9]), "row 2|label 9|0 to 2"),
    ] {
        let folder = small_mnist();
        fs::remove_file(folder.path().join(name)).unwrap();
        folder.write(&(name.to_owned() + ending(&bytes)), bytes);
        assert_says(load(folder.name(), None), &format!("{name}|{parts}"));
    }
    let (root, folder) = (Folder::new(), small_mnist());
    fs::rename(folder.path(), root.path().join("mnist")).unwrap();
    root.write("mnist/train-labels-idx1-ubyte", idx(8, &[3], &[2, 0, 10]));
    let undeclared = load_declared("mnist", Some(root.path()), None);
    assert_says(undeclared, "row 3|label 10|0 to 9");
    assert_says(load("mnist", Some(root.path())), "4 columns|its domain has 784");
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
    let data = load(folder.name(), None).unwrap();
    let fills: Vec<u8> = (1..=4).flat_map(|fill| [fill; 3072]).collect();
    assert_eq!(data.train.features(), &Features::bytes(&fills, 3072, 1.0 / 255.0));
    assert_eq!(classes(&data.train).0, [3, 9, 0, 5]);
    assert_eq!(data.test.unwrap().classes(), Some(10));
    let many: Vec<u8> = (0..200).flat_map(|row| record(row as u8 % 10, row as u8)).collect();
    assert_eq!(train("x.bin", gzip(&many)).len(), 200);
    for (name, bytes, parts) in [
        ("x.bin", record(3, 1)[..3000].to_vec(), "3000 bytes|3073"),
        ("x.bin", [record(3, 1), vec![0]].concat(), "3074 bytes|6146"),
        ("x.bin", gzip(&record(3, 1)[..3000]), "3000 bytes|3073"),
        ("x.bin", xz([]), "empty file"),
        ("x.bin", [record(3, 1), record(10, 1)].concat(), "row 2|label 10|0 to 9"),
    ] {
        assert_says(loaded(name, bytes), &format!("{name}|{parts}"));
    }
}

// LIBSVM

#[test]
fn libsvm_rows_keep_their_stored_values_and_empty_rows() {
    let text = "-1 3:1 11:-0.5\n+1\n# a comment\n\n+1 1:0.0 12:2e-1 # another\r\n-1 2:.5";
    for bytes in [text.into(), gzip(text), xz(text)] {
        let data = train("a9a", bytes);
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
    let data = train("d.svm", "1 1:1 2:2\n2 1:3 2:4\n1 2:5\n");
    assert_eq!(dense(&data), [1.0, 2.0, 3.0, 4.0, 0.0, 5.0]);
    let data = train("s", "1 4:1\n2 1:3\n");
    assert_eq!(data.features().format(), "sparse-f32");
    // Enough rows for several blocks; the last one is wider than all before.
    let rows: String = (0..40_000).map(|row| format!("{} 1:{row} 2:0.5\n", row % 2)).collect();
    let data = train("wide", format!("{rows}1 3:7\n"));
    assert_eq!((data.len(), data.columns()), (40_001, 3));
    let expected = (0..40_000).flat_map(|row| [row as f32, 0.5, 0.0]).chain([0.0, 0.0, 7.0]);
    assert!(dense(&data).iter().copied().eq(expected));
    // A file that begins dense and continues sparse is read as sparse.
    let data = train("sparse", format!("{rows}1 1000000:7\n"));
    let shape = (data.features().format(), data.features().stored(), data.columns());
    assert_eq!(shape, ("sparse-f32", 80_001, 1_000_000));
}

#[test]
fn libsvm_test_rows_follow_the_training_rows() {
    let folder = Folder::new();
    folder.write("a.t.gz", gzip("2 1:1\n1 5:1\n"));
    let data = loaded_in(&folder, "a", "1 4:1\n2 1:3\n3 9:1\n").unwrap();
    let test = data.test.unwrap();
    assert_eq!((data.train.columns(), test.columns(), test.classes()), (9, 9, Some(3)));
    assert_eq!(classes(&test).0, [1, 0]);
    folder.write("a.t.gz", gzip("2 1:1\n4 5:1\n"));
    let unknown = loaded_in(&folder, "a", "1 4:1\n2 1:3\n");
    assert_says(unknown, "a.t.gz, row 2|label 4|1, 2");
    folder.write("a.t", "2 1:1\n1 12:1\n");
    let data = loaded_in(&folder, "a", "1 4:1\n2 9:3\n").unwrap();
    assert_eq!((data.train.columns(), data.test.unwrap().columns()), (12, 12));
    folder.write("b.tst", "1 1:1 2:1\n1 3:1\n");
    let wider = loaded_in(&folder, "b.trn", "1 1:1 2:1\n2 1:3 2:3\n");
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
        assert_says(loaded("x", format!("1 9:1\n{text}\n")), parts);
    }
    assert_says(loaded("x", "1\n1\n"), "no features");
}

// CSV

#[test]
fn csv_finds_header_label_and_separator() {
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
            let data = train("table.csv", bytes);
            assert_eq!((dense(&data), data.columns()), (expected.as_slice(), 2), "{text:?}");
            assert_eq!(classes(&data), ([0, 1].as_slice(), vec!["0", "1"]), "{text:?}");
            assert_eq!(data.name(), "table");
        }
    }
    let data = train("iris.csv", "5.1,0.2,setosa\n4.9,0.1,virginica\n5,0.3,setosa\n");
    assert_eq!(classes(&data), ([0, 1, 0].as_slice(), vec!["setosa", "virginica"]));
    let data = train("regression.csv", "x,y\n5.1,0.25\n4.9,0.1\n");
    assert_eq!(data.labels(), &Labels::Values(vec![0.25, 0.1]));
}

#[test]
fn csv_rows_of_several_blocks_come_in_the_order_of_the_file() {
    let words = ["red", "green", "blue"];
    let text: String = (0..100_000).map(|row| format!("{row},{:.3},{}\n", row as f32 / 8.0, words[row % 3])).collect();
    let data = train("long.csv", text);
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
        assert_says(loaded("x.csv", text), parts);
    }
}

// NPY and NPZ

#[test]
fn npy_of_every_dtype_and_order_is_read() {
    // Rows (1, 2, 0) and (3, 4, 1); the last column is the label.
    let rows = [1u8, 2, 0, 3, 4, 1];
    let columns = [1u8, 3, 2, 4, 0, 1];
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
                let data = train("a.npy", file);
                assert_eq!(dense(&data), [1.0, 2.0, 3.0, 4.0], "{descr} {fortran}");
                assert_eq!(classes(&data).0, [0, 1]);
            }
        }
        let data = train("a.npy", npy("|u1", fortran, "2, 3", &values));
        assert_eq!(data.features(), &Features::bytes(&[1, 2, 3, 4], 2, 1.0));
        let data = train("a.npy", npy("|b1", fortran, "2, 3", &values));
        assert_eq!(dense(&data), [1.0; 4]);
        assert_eq!(classes(&data).0, [0, 1]);
    }
    for version in [2, 3] {
        let header = "{'shape': (2L, 3), \"descr\": \"|i1\", 'fortran_order': False}";
        let data = train("a.npy", npy_with_header(version, header, &rows));
        assert_eq!(dense(&data), [1.0, 2.0, 3.0, 4.0]);
    }
    for columns in [3, 115, 784] {
        let value = |row: usize, column: usize| ((row * columns + column) * 31 % 251) as u8;
        let by_row: Vec<u8> = (0..5 * columns).map(|place| value(place / columns, place % columns)).collect();
        let by_column: Vec<u8> = (0..5 * columns).map(|place| value(place % 5, place / 5)).collect();
        let y = npy("|u1", false, "5,", &[0, 1, 0, 1, 1]);
        let x = npy("|u1", true, &format!("5, {columns}"), &by_column);
        let data = train("a.npz", npz(&[("x", x), ("y", y)], zip::CompressionMethod::Deflated));
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
        let data = loaded_in(&folder, "mnist.npz", npz(&arrays, method)).unwrap();
        let expected = Features::bytes(&[0, 1, 2, 3, 4, 5, 6, 7], 4, 1.0 / 255.0);
        assert_eq!(data.train.features(), &expected);
        assert_eq!(classes(&data.train), ([1, 0].as_slice(), vec!["3", "7"]));
        assert_eq!(classes(&data.test.unwrap()).0, [1]);
        assert_eq!(from_folder.train.digest(), data.train.digest());
    }
    let upper =
        [("X", npy("<f4", false, "1, 1", &1f32.to_le_bytes())), ("y", npy("<f4", false, "1,", &0.5f32.to_le_bytes()))];
    let data = train("xy.npz", npz(&upper, zip::CompressionMethod::Deflated));
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
        (npy("<f4", false, "2, 3", &[&ones[..], &[0]].concat()), "there are at least|promises"),
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
        (npy("<f4", false, "2, 2", &nan), "row 1|NaN"),
        (npy("<f4", false, "1, 4", &nan), "row 1, column 2"),
    ] {
        assert_says(loaded("a.npy", bytes), parts);
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
        (archive(&[("x", &x), ("y", &nan)]), "y.npy|row 1|NaN"),
        (archive(&[("x", &bomb), ("y", &y)]), "x.npy|would unpack|plain"),
    ] {
        assert_says(loaded("a.npz", bytes), parts);
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
        assert_says(loaded("a.npz", bytes), "x.npy|would unpack");
    }
}

// Names and folders

#[test]
fn a_missing_data_set_is_named_with_the_nearest_name() {
    let folder = Folder::new();
    for (name, parts) in [
        ("mnits", "mnits|did you mean mnist?"),
        ("Cifar-10", "did you mean cifar10?"),
        ("qqqq", "called \"qqqq\"; known names: synthetic-mnist, synthetic-logistic"),
        ("no/such/file.csv", "no/such/file.csv|not found"),
        ("mnist", "train-images-idx3-ubyte"),
        ("cifar10", "data_batch_1.bin"),
        ("a9a", "a9a, plain, .gz or .xz"),
        ("covtype", "covtype"),
    ] {
        assert_says(load(name, Some(folder.path())), parts);
    }
    assert_says(load("mnist", Some(&folder.path().join("nowhere"))), "nowhere|`data-dir`");
    assert_says(load(folder.name(), None), "no files");
    folder.write("notes.txt", "hello world\n");
    assert_says(load(folder.name(), None), "a folder with notes.txt|train.*");
    for (name, bytes, parts) in [
        ("notes.txt", b"hello world\n".to_vec(), "notes.txt|LIBSVM"),
        ("empty", vec![], "empty file"),
        ("blank", b"\n\n".to_vec(), "no row"),
        ("zeros", vec![1, 2, 0, 0], "magic number"),
        ("images", idx(8, &[1, 1], &[1]), "single IDX file"),
        ("bomb.csv", gzip(vec![b'1'; 3 << 20]), "would unpack"),
    ] {
        assert_says(loaded_in(&folder, name, bytes), parts);
    }
    if std::env::var_os("ROUNDS_DATA").is_none() {
        assert_says(load("mnist", None), "`data-dir DIR`|ROUNDS_DATA|synthetic-mnist");
    }
}

#[test]
fn folders_with_train_and_test_files_are_read() {
    let folder = Folder::new();
    folder.write("train.csv", "1,2,0\n3,4,1\n");
    folder.write("test.csv.gz", gzip("5,6,1\n"));
    let data = load(folder.name(), None).unwrap();
    assert_eq!((data.train.len(), classes(&data.test.unwrap()).0), (2, [1].as_slice()));
    folder.write("test.csv.gz", gzip("5,6,7,1\n"));
    assert_says(load(folder.name(), None), "test.csv.gz|3 columns|2 columns");
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

/// Real files as the notes on them state: name, rows, columns, classes, stored values and rows of each class; then rows and
/// rows of each class of the test file. A dash: not stated.
const REAL: &str = "\
mnist 60000 784 10 - 5923,6742,5958,6131,5842,5421,5918,6265,5851,5949 10000 980,1135,1032,1010,982,892,958,1028,974,1009
cifar10 50000 3072 10 - 5000,5000,5000,5000,5000,5000,5000,5000,5000,5000 10000 1000,1000,1000,1000,1000,1000,1000,1000,1000,1000
a9a 32561 123 2 451592 24720,7841 16281 12435,3846
w8a 49749 300 2 579586 48270,1479 - -
mushrooms 8124 112 2 170604 - - -
phishing 11055 68 2 331650 - - -
ijcnn1 49990 22 2 1099780 45137,4853 91701 82989,8712
german 1000 24 2 - - 0 -
letter 15000 16 26 - - 5000 -
pendigits 7494 16 10 - - 3498 -
reuters 7770 8315 2 - - 3299 -
covtype 92962 54 7 - 33894,45328,5721,439,1519,2779,3282 - -";

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
        counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    for line in REAL.lines() {
        let (name, expected) = line.split_once(' ').unwrap();
        let TrainTest { train, test } = load_declared(name, Some(&root), None).unwrap();
        let found = [
            train.len().to_string(),
            train.columns().to_string(),
            train.classes().unwrap().to_string(),
            train.features().stored().to_string(),
            counts(&train),
            test.as_ref().map_or(0, Dataset::len).to_string(),
            test.as_ref().map_or_else(String::new, counts),
        ];
        for (found, expected) in found.iter().zip(expected.split(' ')) {
            assert!(expected == "-" || found == expected, "{line}: {found} is not {expected}");
        }
        if let Some(test) = test {
            assert_eq!(test.columns(), train.columns(), "{name}");
        }
    }
    let stored = |name: &str| load_declared(name, Some(&root), None).unwrap().test.unwrap().features().stored();
    assert_eq!((stored("a9a"), stored("ijcnn1")), (225_731, 91_701 * 22));
    let covtype = load("covtype", Some(&root)).unwrap().train;
    assert_eq!(classes(&covtype).1, ["1", "2", "3", "4", "5", "6", "7"]);
    let cifar = load("cifar10", Some(&root)).unwrap().train;
    let Features::U8 { rows, .. } = cifar.features() else { panic!("bytes") };
    for (channel, mean) in [0.4914, 0.4822, 0.4465].into_iter().enumerate() {
        let planes = rows.iter().flat_map(|row| &row[1024 * channel..1024 * (channel + 1)]);
        let sum: u64 = planes.map(|&byte| u64::from(byte)).sum();
        let found = sum as f64 / (50_000.0 * 1024.0 * 255.0);
        assert!((found - mean).abs() < 5e-5, "channel {channel}");
    }
}

// Parts of ranks

/// MNIST's layout with `rows` training rows of 6 bytes.
fn many_rows(rows: u32) -> Folder {
    let folder = Folder::new();
    let images =
        |rows: u32| idx(8, &[rows, 2, 3], &(0..rows * 6).map(|value| (value * 7 % 251) as u8).collect::<Vec<_>>());
    write_mnist(folder.path(), [images(rows), digits(rows), images(10), digits(10)]);
    folder
}

#[test]
fn parts_make_up_the_whole_and_neighbours_agree() {
    let folder = many_rows(23);
    let path = folder.name();
    let whole = load(path, None).unwrap();
    for ranks in [1, 2, 5, 23] {
        let part_of = |rank| part::load(path, None, Request::default(), rank, ranks).unwrap();
        let parts: Vec<_> = (0..ranks).map(part_of).collect();
        for (rank, part) in parts.iter().enumerate() {
            assert_eq!(part.train, whole.train.select(leaf_range(23, ranks, rank)));
            assert_eq!(part.digests.common, parts[0].digests.common);
            assert_eq!(part.digests.next, parts[(rank + 1) % ranks].digests.own);
            assert_eq!(part.test.is_some(), rank == 0);
        }
    }
    assert_eq!(part::load(path, None, Request::default(), 0, 2).unwrap().test, whole.test);
    let refused = part::load(path, None, Request::default(), 3, 24).err().unwrap();
    assert!(refused.to_string().contains("ranks, 24"), "{refused}");
}

#[test]
fn a_byte_that_differs_is_seen_by_the_neighbour() {
    let folders = [many_rows(40), many_rows(40)];
    let mut bytes = fs::read(folders[1].path().join(IMAGES)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    folders[1].write(IMAGES, bytes);
    let [first, second] =
        [0, 1].map(|rank| part::load(folders[rank].name(), None, Request::default(), rank, 2).unwrap().digests);
    assert_eq!(first.common, second.common);
    assert_ne!(first.next, second.own);
    assert_eq!(second.next, first.own);
}
