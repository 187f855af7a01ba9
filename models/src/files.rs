//! Files that are written whole or not at all, and files that hold secrets.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::{Errno, retry_on_intr};
use tempfile::NamedTempFile;

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces the file at `path` with `contents`: written to a temporary file `.rounds-…` beside it, synced, renamed, with the
/// new name on the disk at the end. A temporary file that cannot be finished is wiped. A link stays, and its file is replaced;
/// a character device takes the bytes.
///
/// # Errors
/// A file that cannot be written; the old one is then untouched. A folder, pipe or other thing that is no file.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    match Target::of(path)? {
        Target::File(path) => replace_with_mode(&path, contents, 0o666),
        Target::Device => OpenOptions::new().write(true).open(path)?.write_all(contents),
    }
}

/// Checks that [`replace`] can write `path`, before the work that makes its contents.
///
/// # Errors
/// As [`replace`].
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    match Target::of(path)? {
        Target::File(path) => {
            if path.exists() {
                OpenOptions::new().append(true).open(&path)?;
            }
            temporary(folder_of(&path), 0o600).map(drop)
        }
        Target::Device => OpenOptions::new().write(true).open(path).map(drop),
    }
}

/// Reserves `bytes` of the disk for a file that is to be written to `path`, until the returned file is dropped. `held`, from an earlier call,
/// grows to that size. `None` where the file system cannot reserve, or for a device.
///
/// # Errors
/// A disk without that much room, a folder that cannot be written.
pub fn reserve(path: &Path, bytes: u64, held: Option<File>) -> io::Result<Option<File>> {
    let Target::File(path) = Target::of(path)? else { return Ok(None) };
    // Without a name: nothing is left of it, however the process ends.
    let file = held.map_or_else(|| tempfile::tempfile_in(folder_of(&path)), Ok)?;
    match retry_on_intr(|| rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)) {
        Ok(()) => Ok(Some(file)),
        Err(error) if [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].contains(&error) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// True if a regular file with contents lies at `path` whose first 1024 bytes, or fewer, `is_own` does not know: what would be lost if
/// it were replaced.
pub fn holds_other(path: &Path, is_own: impl FnOnce(&[u8]) -> bool) -> bool {
    // A pipe would wait for its writer.
    if !path.is_file() {
        return false;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(1024).read_to_end(&mut start));
    read.is_err() || !(start.is_empty() || is_own(&start))
}

/// The file or folder at a path, the same under each of its names.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// The thing that a path to write leads to.
enum Target {
    /// A regular file at this path, through no link, or none yet.
    File(PathBuf),
    Device,
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        let kind = match fs::metadata(path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::File(path.to_owned())),
            Err(error) => return Err(error),
        };
        if kind.is_file() {
            fs::canonicalize(path).map(Self::File)
        } else if kind.is_char_device() {
            Ok(Self::Device)
        } else {
            let is = if kind.is_dir() { "a folder" } else { "no regular file" };
            Err(io::Error::other(format!("it is {is}; name a file")))
        }
    }
}

/// New files that get their names together, when all are written: until then they are temporary ones, `.rounds-…`, beside them. Of files that
/// are dropped before, nothing is left.
#[derive(Default)]
pub struct NewFiles(Vec<(NamedTempFile, PathBuf)>);

impl NewFiles {
    /// A file to write, which is to be called `path`.
    ///
    /// # Errors
    /// A file that is there already, a folder that cannot be written.
    pub fn create(&mut self, path: &Path) -> io::Result<File> {
        self.create_with_mode(path, 0o666)
    }

    pub(crate) fn create_with_mode(&mut self, path: &Path, mode: u32) -> io::Result<File> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = temporary(folder_of(path), mode)?;
        let written = file.as_file().try_clone()?;
        self.0.push((file, path.to_owned()));
        Ok(written)
    }

    /// Gives all their names, over no file, with what was written on the disk; none where one cannot get its own.
    ///
    /// # Errors
    /// A file that is there by now, or that cannot be written.
    pub fn keep(self) -> io::Result<()> {
        self.0.iter().try_for_each(|(file, _)| file.as_file().sync_all())?;
        let mut named = Vec::new();
        let kept = self.0.into_iter().try_for_each(|(file, path)| {
            file.persist_noclobber(&path)?;
            named.push(path);
            File::open(folder_of(&named[named.len() - 1]))?.sync_all()
        });
        if kept.is_err() {
            named.iter().for_each(|path| drop(fs::remove_file(path)));
        }
        kept
    }
}

fn temporary(folder: &Path, mode: u32) -> io::Result<NamedTempFile> {
    if !folder.is_dir() {
        // Not the name of a temporary file.
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("its folder {} is not there", folder.display())));
    }
    tempfile::Builder::new().prefix(".rounds-").permissions(Permissions::from_mode(mode)).tempfile_in(folder)
}

/// [`replace`] by a file that only its owner may read.
pub(crate) fn replace_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace_with_mode(path, contents, 0o600)
}

fn replace_with_mode(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let folder = folder_of(path);
    let mut file = temporary(folder, mode)?;
    let written = file.write_all(contents).and_then(|()| file.as_file().sync_all());
    let persisted = match written {
        Ok(()) => file.persist(path).map_err(|error| (error.file, error.error)),
        Err(error) => Err((file, error)),
    };
    if let Err((file, error)) = persisted {
        let _ = wipe(file.as_file());
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

/// Overwrites a file with zeros, on the disk.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn wipe(mut file: &File) -> io::Result<()> {
    let size = file.metadata()?.len();
    file.rewind()?;
    io::copy(&mut io::repeat(0).take(size), &mut file)?;
    file.sync_all()
}

/// Takes the name from an open file, overwrites it with zeros, and removes it: under `path` lies the whole file or none.
///
/// # Errors
/// A folder or a file that cannot be written; the file then has its name again.
pub(crate) fn remove_wiped(path: &Path, file: &File) -> io::Result<()> {
    let folder = folder_of(path);
    let hidden = tempfile::Builder::new().prefix(".rounds-").tempfile_in(folder)?.into_temp_path();
    fs::rename(path, &hidden)?;
    File::open(folder)?.sync_all().and_then(|()| wipe(file)).inspect_err(|_| drop(fs::rename(&hidden, path)))?;
    hidden.close()
}

#[derive(Debug)]
pub(crate) enum OpenError {
    /// Something else than a regular file, in words.
    NotRegular(&'static str),
    File(io::Error),
}

/// Opens a regular file, through no link.
///
/// # Errors
/// A link, a folder, a pipe; the file system's refusal.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> Result<File, OpenError> {
    let metadata = fs::symlink_metadata(path).map_err(OpenError::File)?;
    if !metadata.is_file() {
        let link = metadata.is_symlink();
        return Err(OpenError::NotRegular(if link { "a symbolic link" } else { "no regular file" }));
    }
    // A link may have been put there since.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    options.custom_flags(flags).open(path).map_err(OpenError::File)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_reserved_on_the_disk_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("model");
        if let Some(room) = reserve(&place, 1 << 16, None).unwrap() {
            let same = room.metadata().unwrap().ino();
            let [room, larger] =
                [1 << 15, 1 << 17].map(|bytes| reserve(&place, bytes, Some(room.try_clone().unwrap())));
            let [room, larger] = [room, larger].map(|room| room.unwrap().unwrap().metadata().unwrap());
            assert_eq!((room.ino(), larger.ino(), larger.len()), (same, same, 1 << 17));
            assert!(reserve(&place, 1 << 62, None).is_err());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(reserve(&folder.path().join("missing/model"), 1, None).is_err());
        assert!(reserve(Path::new("/dev/null"), 1, None).unwrap().is_none());
    }

    #[test]
    fn only_regular_files_are_replaced_and_links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "old").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        check_replaceable(&at("link")).unwrap();
        replace(&at("link"), b"new").unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::read(at("file")).unwrap(), b"new");
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for name in ["pipe", "folder"] {
            assert!(check_replaceable(&at(name)).is_err() && replace(&at(name), b"x").is_err());
        }
        assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo());
        assert!(check_replaceable(&at("missing/file")).is_err());
        check_replaceable(&at("none yet")).unwrap();
        assert!(!at("none yet").exists());
    }

    #[test]
    fn only_files_with_contents_of_another_kind_would_be_lost() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        for (name, contents) in [("empty", ""), ("own", "own text"), ("other", "text")] {
            fs::write(at(name), contents).unwrap();
        }
        std::os::unix::fs::symlink("other", at("link")).unwrap();
        for name in ["none", "pipe", "empty", "own", "other", "link"] {
            let lost = ["other", "link"].contains(&name);
            assert_eq!(holds_other(&at(name), |start| start.starts_with(b"own")), lost, "{name}");
        }
        assert_eq!(identity(&at("link")), identity(&at("other")));
        assert!(identity(&at("own")).is_some() && identity(&at("own")) != identity(&at("other")));
    }

    #[test]
    fn new_files_get_their_names_together_or_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["x", "y"].map(|name| folder.path().join(name));
        let written = || {
            let mut files = NewFiles::default();
            for path in &paths {
                files.create(path).unwrap().write_all(b"new").unwrap();
                assert!(!path.exists(), "no part of a file has its name");
            }
            files
        };
        drop(written());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let late = written();
        written().keep().unwrap();
        assert!(paths.iter().all(|path| fs::read(path).unwrap() == b"new"));
        fs::write(&paths[0], "another's").unwrap();
        assert!(late.keep().is_err() && NewFiles::default().create(&paths[0]).is_err());
        assert_eq!(fs::read(&paths[0]).unwrap(), b"another's");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        // The second name is taken: the first goes too.
        paths.iter().for_each(|path| fs::remove_file(path).unwrap());
        let half = written();
        fs::write(&paths[1], "another's").unwrap();
        assert!(half.keep().is_err() && !paths[0].exists());
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for contents in [&b"a longer first content"[..], b"short"] {
            replace(&path, contents).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), contents);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(replace(&folder.path().join("missing/file"), b"").is_err());
        assert_eq!(folder_of(Path::new("file")), Path::new("."));
    }
}
