//! Data files of every format, made for tests. Several test binaries use this file, each a part of it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A folder that is removed with its files.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path as text.
    pub(crate) fn name(&self) -> &str {
        self.path().to_str().unwrap()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        write(self.path(), name, bytes)
    }
}

/// Writes one file, and the folders that lead to it.
pub(crate) fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

pub(crate) fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn xz(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

/// An IDX file; `element` is the code of its type.
pub(crate) fn idx(element: u8, shape: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, element, shape.len() as u8];
    shape.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
    bytes.extend(payload);
    bytes
}

/// `rows` labels from 0 to 9, one after the other.
pub(crate) fn digits(rows: u32) -> Vec<u8> {
    idx(8, &[rows], &(0..rows).map(|row| (row % 10) as u8).collect::<Vec<u8>>())
}

/// MNIST's files: training images and labels, test images and labels.
pub(crate) const MNIST: [&str; 4] =
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];

/// Writes MNIST's files.
pub(crate) fn write_mnist(folder: &Path, files: [Vec<u8>; 4]) {
    for (name, bytes) in MNIST.into_iter().zip(files) {
        write(folder, name, bytes);
    }
}

/// An array as numpy writes it.
pub(crate) fn npy(descr: &str, fortran: bool, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({shape}), }}");
    npy_with_header(1, &header, bytes)
}

pub(crate) fn npy_with_header(version: u8, header: &str, bytes: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32 + 1).to_le_bytes();
    let length = if version == 1 { &length[..2] } else { &length[..] };
    [&b"\x93NUMPY"[..], &[version, 0], length, header.as_bytes(), b"\n", bytes].concat()
}

/// An archive of arrays as numpy writes it.
pub(crate) fn npz(arrays: &[(&str, Vec<u8>)], method: zip::CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in arrays {
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}
