"""What a power cut may leave of a folder, computed from the journal that the shim wrote (journal.h has its format).

A disk promises little: data is there after an fsync of its file, names (new, renamed, removed) after an fsync of their
folder. Whatever was not synced may be there or not. `Disk.states()` gives the corners of that: names none, all, or the
first few of those that wait; data none, all, half of each write, or zeros in its place.
"""

import os
import shutil
from pathlib import Path


def read_journal(path):
    """The records: (operation, inode, number, path, second path, data)."""
    raw = Path(path).read_bytes()
    records, at = [], 0
    while at < len(raw):
        end = raw.index(b"\n", at)
        head, first, second = raw[at:end].decode().split("\t")
        operation, inode, number, size = head.split(" ")
        at = end + 1 + int(size)
        records.append((operation, int(inode), int(number), first, second, raw[end + 1 : at]))
    return records


class File:
    def __init__(self, data=b"", is_synced=False):
        self.data = bytearray(data)
        self.synced = bytes(data) if is_synced else b""
        self.dirty = []  # Ranges written since the last sync.

    def write(self, offset, data):
        self.resize(max(len(self.data), offset + len(data)))
        self.data[offset : offset + len(data)] = data
        self.dirty.append((offset, offset + len(data)))

    def resize(self, size):
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))

    def sync(self):
        self.synced = bytes(self.data)
        self.dirty = []

    def content(self, choice):
        if choice == "written":
            return bytes(self.data)
        if choice == "synced":
            return self.synced
        # The new length is there, and of the new bytes none or the first half.
        left = bytearray(self.data)
        for begin, end in self.dirty:
            if choice == "torn":
                begin += (end - begin) // 2
            end = min(end, len(left))
            left[begin:end] = bytes(max(0, end - begin))
        return bytes(left)


class Folder:
    def __init__(self):
        self.names = {}
        self.synced = {}


class Disk:
    """The tree under `root`, begun from what is really there: all of it is old and safe."""

    def __init__(self, root):
        self.root = str(root)
        self.folders = {}
        self.inodes = {}
        self.waiting = []  # Changes of names: (folder, name, what it is now or None), one list per operation.
        self.tree = self._load(self.root)

    def _load(self, path):
        folder = Folder()
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                node = self._load(entry.path)
            else:
                node = File(Path(entry.path).read_bytes(), is_synced=True)
                self.inodes[entry.inode()] = node
            folder.names[entry.name] = folder.synced[entry.name] = node
        return folder

    def _folder(self, path):
        node = self.tree
        for part in Path(path).relative_to(self.root).parts:
            node = node.names[part]
        return node

    def _place(self, path):
        return self._folder(os.path.dirname(path)), os.path.basename(path)

    def _change(self, kind, *changes):
        for folder, name, node in changes:
            if node is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = node
        self.waiting.append((kind, list(changes)))

    def apply(self, record):
        operation, inode, number, path, second, data = record
        if operation == "C":
            node = self.inodes[inode] = File()
            self._change("create", (*self._place(path), node))
        elif operation == "M":
            self._change("create", (*self._place(path), Folder()))
        elif operation == "N":
            self._change("link", (*self._place(path), self.inodes[inode]))
        elif operation == "U":
            self._change("remove", (*self._place(path), None))
        elif operation == "R":
            folder, name = self._place(path)
            self._change("rename", (folder, name, None), (*self._place(second), folder.names[name]))
        elif operation == "W":
            self.inodes[inode].write(number, data)
        elif operation == "T":
            self.inodes[inode].resize(number)
        elif operation == "S":
            self.inodes[inode].sync()
        elif operation == "D":
            self._sync_folder(self._folder(path))
        else:
            raise ValueError(f"the journal has an unknown operation {operation}")

    def _sync_folder(self, folder):
        folder.synced = dict(folder.names)
        for _, changes in self.waiting:
            changes[:] = [change for change in changes if change[0] is not folder]
        self.waiting = [operation for operation in self.waiting if operation[1]]

    def _surviving_names(self):
        """Choices of waiting operations that reach the disk, the likely ones first."""
        count = len(self.waiting)
        yield range(0)
        yield range(count)
        yield [i for i in range(count) if self.waiting[i][0] == "rename"]
        yield [i for i in range(count) if self.waiting[i][0] != "remove"]
        # File systems with a journal of their own keep the order; those without may keep any one.
        for i in range(1, count):
            yield range(i)
        for i in range(count):
            yield [i]

    def states(self):
        """What may be there after a power cut now: {path: content, or None for a folder}, each only once."""
        seen = set()
        for operations in self._surviving_names():
            names = {}

            def entries(folder, names=names):
                return names.setdefault(id(folder), dict(folder.synced))

            for i in operations:
                for folder, name, node in self.waiting[i][1]:
                    if node is None:
                        entries(folder).pop(name, None)
                    else:
                        entries(folder)[name] = node
            for choice in ("synced", "zeroed", "torn", "written"):
                state = {}
                self._collect(self.tree, "", entries, choice, state)
                key = frozenset(state.items())
                if key not in seen:
                    seen.add(key)
                    yield state

    def now(self):
        """What a program sees, and what is left when it is killed."""
        state = {}
        self._collect(self.tree, "", lambda folder: folder.names, "written", state)
        return state

    def _collect(self, folder, prefix, entries, choice, state):
        for name, node in entries(folder).items():
            if isinstance(node, Folder):
                state[prefix + name] = None
                self._collect(node, prefix + name + "/", entries, choice, state)
            else:
                state[prefix + name] = node.content(choice)


def read_tree(root):
    """A real folder in the form of a state."""
    state = {}
    for path in sorted(Path(root).rglob("*")):
        state[str(path.relative_to(root))] = None if path.is_dir() else path.read_bytes()
    return state


def write_tree(root, state):
    """Makes the folder exactly that state."""
    root = Path(root)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for name in sorted(state):
        if state[name] is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(state[name])
