"""Folders on disk: a manifest and tensors, written whole or not at all, and checked when they are read.

folder.py       `write` and `read`: the switch from an old folder to a new one, and what happens when others write or read
tensors.py      the file of tensors: aligned, mapped into memory, with a checksum of each tensor
manifest.py     the manifest: strict JSON with a checksum of its own
formats.py      manifests of earlier versions
checks.py       what a manifest and tensors must be before they are used
data.py         interactions as tensors
fingerprint.py  a hash of what was learned
replacing.py    folders of any files that appear whole

Reading runs no code: the manifest is JSON and the tensors are safetensors.
"""

from aleator.checkpoint.data import pack_data, unpack_data
from aleator.checkpoint.fingerprint import fingerprint
from aleator.checkpoint.folder import UNREADABLE, check_target, read, write
from aleator.checkpoint.formats import FORMAT, upgrade
from aleator.checkpoint.manifest import Path_, damaged, read_manifest, sealed
from aleator.checkpoint.replacing import check_folder, replacing
from aleator.checkpoint.tensors import checksum

__all__ = [
    "FORMAT",
    "UNREADABLE",
    "Path_",
    "check_folder",
    "check_target",
    "checksum",
    "damaged",
    "fingerprint",
    "pack_data",
    "read",
    "read_manifest",
    "replacing",
    "sealed",
    "unpack_data",
    "upgrade",
    "write",
]
