//! A real directory whose files lose unsynced data when the power is cut.
//!
//! The directory is a FUSE file system over the simulated disk of the storage crate: each write of the daemon is passed
//! on immediately, each `fsync` is recorded, and [`VolatileDisk::cut_power`] keeps an arbitrary part of the unsynced
//! data. Mounting requires `/dev/fuse` and the right to mount; without one of them [`VolatileDisk::mount`] fails.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use peeklock_storage::SimulatedDisk;
use peeklock_storage::local::{File, Filesystem as Disk};

use super::nodes::Nodes;

/// The kernel must not cache attributes or names.
const NO_CACHE: Duration = Duration::ZERO;
const FREE_BLOCKS: u64 = 1 << 24;
const BLOCK_BYTES: u32 = 4096;

/// A mounted disk.
pub(crate) struct VolatileDisk {
    disk: SimulatedDisk,
    directories: Arc<Mutex<BTreeSet<PathBuf>>>,
    mount_point: PathBuf,
    session: Option<BackgroundSession>,
}

impl VolatileDisk {
    /// Mounts an empty disk at `mount_point`, an existing directory.
    ///
    /// # Errors
    /// Errors of the operating system; the process may not be allowed to mount.
    pub(crate) fn mount(mount_point: &Path) -> io::Result<Self> {
        let directories = Arc::new(Mutex::new(BTreeSet::from([PathBuf::from("/")])));
        let mut disk = Self {
            disk: SimulatedDisk::new(),
            directories,
            mount_point: mount_point.to_owned(),
            session: None,
        };
        disk.attach()?;
        Ok(disk)
    }

    fn attach(&mut self) -> io::Result<()> {
        let tree =
            Tree { disk: self.disk.mount(), nodes: Mutex::new(Nodes::new(Arc::clone(&self.directories))) };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("volatile".to_owned())];
        self.session = Some(fuser::spawn_mount(tree, &self.mount_point, &config)?);
        Ok(())
    }

    /// Loses an arbitrary part of the unsynced data, selected by `seed`, and mounts the rest. The processes that used
    /// the disk must have ended.
    ///
    /// # Errors
    /// Errors of the operating system when unmounting and mounting.
    pub(crate) fn cut_power(&mut self, seed: u64) -> io::Result<()> {
        self.detach()?;
        self.disk.crash(seed);
        self.attach()
    }

    /// Unmounts, which ends the session's thread.
    ///
    /// The kernel closes the files of an ended process without waiting for the answers. A thread that receives such a
    /// request at the time of unmounting gets `ECONNABORTED` instead of the usual `ENODEV`; unmounting itself never
    /// fails with that error.
    ///
    /// # Errors
    /// Errors of the operating system, such as `EBUSY` while a process has a file open.
    pub(crate) fn detach(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        match session.umount_and_join() {
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
            ended => ended,
        }
    }
}

/// The file system as seen by the kernel.
struct Tree {
    disk: Arc<dyn Disk>,
    nodes: Mutex<Nodes>,
}

impl Tree {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, number: INodeNo) -> io::Result<PathBuf> {
        self.nodes().paths.get(&number.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    fn file(&self, number: INodeNo) -> io::Result<Arc<dyn File>> {
        self.nodes().files.get(&number.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn attributes(&self, number: u64) -> io::Result<FileAttr> {
        let file = self.nodes().files.get(&number).cloned();
        Ok(match file {
            Some(file) => attributes(number, FileType::RegularFile, file.len()?),
            None => attributes(number, FileType::Directory, 0),
        })
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let path = self.child(parent, name)?;
        let is_directory = self.nodes().is_directory(&path);
        if !is_directory && !self.nodes().numbers.contains_key(&path) {
            let file = self.disk.open(&path, true)?;
            let mut nodes = self.nodes();
            let number = nodes.number(&path);
            nodes.files.insert(number, file);
        }
        let number = self.nodes().number(&path);
        self.attributes(number)
    }

    fn make(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let path = self.child(parent, name)?;
        let file = self.disk.create(&path)?;
        let number = {
            let mut nodes = self.nodes();
            nodes.forget(&path);
            let number = nodes.number(&path);
            nodes.files.insert(number, file);
            number
        };
        self.attributes(number)
    }

    fn make_directory(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let path = self.child(parent, name)?;
        let mut nodes = self.nodes();
        nodes.directories.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
        Ok(attributes(nodes.number(&path), FileType::Directory, 0))
    }

    fn move_to(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)?;
        let mut nodes = self.nodes();
        nodes.forget(to);
        if let Some(number) = nodes.forget(from) {
            nodes.numbers.insert(to.to_owned(), number);
            nodes.paths.insert(number, to.to_owned());
        }
        Ok(())
    }

    fn unlink_path(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        let path = self.child(parent, name)?;
        self.disk.remove(&path)?;
        self.nodes().forget(&path);
        Ok(())
    }

    /// At most `size` bytes at `offset`; fewer at the end of the file.
    fn read_at(&self, number: INodeNo, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let file = self.file(number)?;
        let left = file.len()?.saturating_sub(offset);
        let mut bytes = vec![0; usize::try_from(left.min(u64::from(size))).unwrap_or(0)];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    fn names_in(&self, directory: INodeNo) -> io::Result<Vec<(u64, FileType, String)>> {
        let path = self.path(directory)?;
        let itself = |name: &str| (directory.0, FileType::Directory, name.to_owned());
        let mut entries = vec![itself("."), itself("..")];
        let directories = self.nodes().directories.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let below = directories.iter().filter(|below| below.parent() == Some(&*path));
        let below = below.filter_map(|below| Some(below.file_name()?.to_string_lossy().into_owned()));
        entries.extend(below.map(|name| (u64::MAX, FileType::Directory, name)));
        let files = self.disk.list(&path)?;
        entries.extend(files.into_iter().map(|name| (u64::MAX, FileType::RegularFile, name)));
        Ok(entries)
    }
}

fn attributes(number: u64, kind: FileType, size: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: if kind == FileType::Directory { 0o700 } else { 0o600 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn errno(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::NotFound => Errno::ENOENT,
        io::ErrorKind::StorageFull => Errno::ENOSPC,
        _ => Errno::EIO,
    }
}

/// Replies with `$done` on success of `$result`, otherwise with its error.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $done:expr) => {
        match $result {
            Ok($value) => $done,
            Err(error) => $reply.error(errno(&error)),
        }
    };
}

impl Filesystem for Tree {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.look_up(parent, name), found => reply.entry(&NO_CACHE, &found, Generation(0)));
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.attributes(number.0), found => reply.attr(&NO_CACHE, &found));
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resize = size.map_or(Ok(()), |size| self.file(number)?.set_len(size));
        let result = resize.and_then(|()| self.attributes(number.0));
        answer!(reply, result, found => reply.attr(&NO_CACHE, &found));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let result = self.make_directory(parent, name);
        answer!(reply, result, made => reply.entry(&NO_CACHE, &made, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.unlink_path(parent, name), _ => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let paths = self.child(parent, name).and_then(|from| Ok((from, self.child(new_parent, new_name)?)));
        answer!(reply, paths.and_then(|(from, to)| self.move_to(&from, &to)), _ => reply.ok());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let flags = FopenFlags::FOPEN_DIRECT_IO;
        let result = self.make(parent, name);
        answer!(reply, result, made => reply.created(&NO_CACHE, &made, Generation(0), FileHandle(0), flags));
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer!(reply, self.read_at(number, offset, size), bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = u32::try_from(data.len()).unwrap_or(u32::MAX);
        answer!(reply, self.file(number).and_then(|file| file.write_all_at(data, offset)), _ => reply.written(written));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, self.file(number).and_then(|file| file.sync_data()), _ => reply.ok());
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = match self.names_in(number) {
            Ok(entries) => entries,
            Err(error) => return reply.error(errno(&error)),
        };
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for (next, (number, kind, name)) in (1..).zip(entries).skip(skipped) {
            if reply.add(INodeNo(number), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let result = self.path(number).and_then(|path| self.disk.sync_directory(&path));
        answer!(reply, result, _ => reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(FREE_BLOCKS, FREE_BLOCKS, FREE_BLOCKS, 0, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        answer!(reply, self.file(number).and_then(|file| file.allocate(offset + length)), _ => reply.ok());
    }
}
