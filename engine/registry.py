"""Which folders may be served, under which names. Everything is validated before a byte is allocated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.adapters import Adapter, AdapterTable
from engine.errors import (
    AdapterError,
    AdapterExistsError,
    AdapterInvalidError,
    AdapterNotFoundError,
    AdapterTooLargeError,
    PathRefusedError,
)
from engine.event_log import EventLog
from engine.packing import pack
from engine.peft import read_manifest
from engine.pool import PagePool
from engine.shape import ModelShape

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Registry:
    """``limit_pages``: the most that one adapter may need, asked anew because pins lower it."""

    def __init__(
        self,
        table: AdapterTable,
        pool: PagePool,
        shape: ModelShape,
        roots: tuple[str, ...],
        served_model_name: str,
        limit_pages: Callable[[], int],
        events: EventLog,
    ) -> None:
        self._table = table
        self._pool = pool
        self._shape = shape
        self._roots = [Path(root).expanduser().resolve() for root in roots]
        self._served_model_name = served_model_name
        self._limit_pages = limit_pages
        self._events = events

    def add(self, name: str, path: str, by: str) -> Adapter:
        """Register one folder. Raises an AdapterError that says what is wrong with it."""
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise AdapterInvalidError(f"adapter name {name[:140]!r}: use 1 to 128 of A-Z a-z 0-9 . _ -")
        if name == self._served_model_name:
            raise AdapterExistsError(f"{name!r} is the name of the base model")
        if (known := self._table.find(name)) is not None:
            raise AdapterExistsError(f"adapter {name!r} is registered already, from {known.manifest.folder}")
        folder = self._resolve(path)
        manifest = read_manifest(folder, self._shape)
        layout = pack(manifest, self._shape.element_bytes, self._pool.page_bytes, self._pool.unit_bytes)
        if layout.most_pages > (limit := self._limit_pages()):
            raise AdapterTooLargeError(
                f"{folder} needs {layout.most_pages} pages of {self._pool.page_bytes >> 20} MiB, and {limit} are left "
                "to adapters that are not pinned: unpin some, or use a larger --pool-mib or a lower --kv-floor"
            )
        adapter = self._table.register(name, manifest, layout)
        self._events.add(
            "register", name, by, "; ".join(manifest.warnings), bytes=layout.payload_bytes, pages=layout.most_pages
        )
        return adapter

    def discover(self) -> Iterator[tuple[str, Path]]:
        """(name, folder) of every adapter in the roots: a root that is one itself, and subfolders that are."""
        for root in self._roots:
            if (root / "adapter_config.json").is_file():
                yield root.name, root
            elif root.is_dir():
                yield from (
                    (folder.name, folder)
                    for folder in sorted(root.iterdir())
                    if (folder / "adapter_config.json").is_file()
                )

    def add_found(self, report: Callable[[str, int, int], None]) -> None:
        """Register what the roots hold. A bad folder is an event, never a failed start.

        ``report``: called with (name, done, total).
        """
        for root in self._roots:
            if not root.is_dir():
                self._events.add("error", root.name, "start", f"adapter directory {root} does not exist")
        found = list(self.discover())
        for done, (name, folder) in enumerate(found):
            report(name, done, len(found))
            try:
                self.add(name, str(folder), "start")
            except AdapterError as error:
                self._events.add("error", name, "start", str(error))

    def _resolve(self, path: str) -> Path:
        if not path or "\0" in path:
            raise AdapterNotFoundError("the path of the adapter's folder is missing")
        folder = Path(path).expanduser().resolve()
        if not any(folder.is_relative_to(root) for root in self._roots):
            raise PathRefusedError(
                f"{folder} lies outside every adapter root: start the engine with --adapter-dir {folder.parent}"
            )
        if not folder.is_dir():
            raise AdapterNotFoundError(f"{folder}: no such folder")
        return folder
