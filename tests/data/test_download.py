"""Downloads from a real HTTP server on this machine."""

from __future__ import annotations

import hashlib
import io
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from aleator import progress as progress_module
from aleator.data.download import ATTEMPTS, digest, fetch
from aleator.errors import AleatorError

CONTENT = bytes(range(256)) * 1024  # 256 KiB, which is several chunks
CHECKSUMS = {
    "md5": hashlib.md5(CONTENT).hexdigest(),
    "sha256": hashlib.sha256(CONTENT).hexdigest(),
    "git": hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest(),
}


class Publisher(ThreadingHTTPServer):
    """Offers CONTENT as /file and records the requests."""

    ranges = True  # whether a Range is honoured
    cuts = 0  # how many of the next answers are cut in the middle
    asked: list[str | None]  # the Range header of each request
    sent: int  # bytes of content

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file"


class Answer(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if self.path != "/file":
            self.send_error(404)
            return
        start = 0
        if wanted and self.server.ranges:
            match = re.fullmatch(r"bytes=(\d+)-", wanted)
            assert match is not None
            start = int(match[1])
        if start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.end_headers()
            return
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.end_headers()
        if self.server.cuts:
            self.server.cuts -= 1
            body = body[: len(body) // 2]  # then the connection is closed
        self.server.sent += len(body)  # before the last byte is sent, because the test may look right after it
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Publisher(("127.0.0.1", 0), Answer) as server:
        server.asked, server.sent = [], 0
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", CHECKSUMS)
def test_a_file_arrives_whole_and_is_checked(publisher: Publisher, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "new" / "folder" / "file"
    assert fetch(publisher.url, target, checksum=f"{kind}:{CHECKSUMS[kind]}", size=len(CONTENT)) == target
    assert target.read_bytes() == CONTENT
    assert left_in(target.parent) == ["file"]
    assert publisher.asked == [None]


def test_a_partial_file_is_resumed_not_fetched_again(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    fetch(publisher.url, tmp_path / "file", checksum=f"md5:{CHECKSUMS['md5']}")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert publisher.asked == ["bytes=1000-"]
    assert publisher.sent == len(CONTENT) - 1000
    assert left_in(tmp_path) == ["file"]


def test_a_server_that_ignores_ranges_sends_the_file_anew(publisher: Publisher, tmp_path: Path) -> None:
    publisher.ranges = False
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    fetch(publisher.url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert publisher.asked == ["bytes=1000-"]


def test_a_part_that_is_whole_already_is_put_in_place(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    fetch(publisher.url, tmp_path / "file", checksum=f"md5:{CHECKSUMS['md5']}")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert publisher.sent == 0


def test_a_part_that_is_longer_than_the_file_is_thrown_away(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT + b"more")
    fetch(publisher.url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("expected", [{"checksum": "md5:" + "0" * 32}, {"checksum": "git:abc"}, {"size": 7}])
def test_a_wrong_file_is_deleted_and_refused(publisher: Publisher, tmp_path: Path, expected: dict[str, Any]) -> None:
    with pytest.raises(AleatorError, match="not the file that was expected"):
        fetch(publisher.url, tmp_path / "file", **expected)
    assert left_in(tmp_path) == []


def test_a_failed_download_leaves_the_file_that_was_there(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"older")
    with pytest.raises(AleatorError):
        fetch(publisher.url, tmp_path / "file", checksum="md5:" + "0" * 32)
    assert (tmp_path / "file").read_bytes() == b"older"


def test_a_cut_connection_is_taken_up_again(publisher: Publisher, tmp_path: Path) -> None:
    publisher.cuts = 2
    fetch(publisher.url, tmp_path / "file", checksum=f"sha256:{CHECKSUMS['sha256']}")
    half, rest = len(CONTENT) // 2, len(CONTENT) // 4
    assert publisher.asked == [None, f"bytes={half}-", f"bytes={half + rest}-"]
    assert publisher.sent == len(CONTENT)  # no byte came twice
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_connection_that_is_cut_again_and_again_keeps_what_came(publisher: Publisher, tmp_path: Path) -> None:
    publisher.cuts = ATTEMPTS
    with pytest.raises(AleatorError, match=r"was cut after [\d,]+ bytes; run it again"):
        fetch(publisher.url, tmp_path / "file")
    assert left_in(tmp_path) == ["file.part"]
    came = (tmp_path / "file.part").read_bytes()
    assert len(came) > len(CONTENT) // 2
    assert CONTENT.startswith(came)
    assert len(publisher.asked) == ATTEMPTS
    fetch(publisher.url, tmp_path / "file")  # no answer is cut any more
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert publisher.sent == len(CONTENT)


def test_a_missing_file_is_asked_for_once_and_leaves_nothing(publisher: Publisher, tmp_path: Path) -> None:
    with pytest.raises(AleatorError, match="answers 404"):
        fetch(publisher.url + "s", tmp_path / "file")
    assert publisher.asked == [None]
    assert left_in(tmp_path) == []


def test_a_refused_connection_is_an_error_of_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as taken:  # bound but not listening, so it refuses connections
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(AleatorError, match="cannot be reached") as caught:
            fetch(f"http://127.0.0.1:{taken.getsockname()[1]}/file", tmp_path / "file")
    assert "\n" not in str(caught.value)
    assert left_in(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_refused(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(AleatorError, match="cannot be written"):
        fetch(publisher.url, tmp_path / "taken" / "file")


def test_the_git_checksum_is_that_of_git(tmp_path: Path) -> None:
    (tmp_path / "hello").write_bytes(b"hello\n")
    assert digest(tmp_path / "hello", "git") == "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object
    with pytest.raises(AleatorError, match="unknown checksum 'crc'"):
        digest(tmp_path / "hello", "crc")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_unless_it_is_switched_off(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "200")

    def shown(screen: io.StringIO, progress: bool = True) -> str:
        monkeypatch.setattr(sys, "stderr", screen)
        fetch(publisher.url, tmp_path / "file", progress=progress)
        return screen.getvalue()

    assert f"{len(CONTENT)}/{len(CONTENT)}" in shown(Terminal())
    assert shown(Terminal(), progress=False) == ""
    assert shown(io.StringIO()) == ""
    progress_module.quiet(True)
    try:
        assert shown(Terminal()) == ""
    finally:
        progress_module.quiet(False)


def test_progress_shows_the_latest_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_module.progress("fitting", 2) as bar:
        bar.advance(1, loss=0.123456, epoch=3)
        bar.advance(1)
    assert "fitting" in screen.getvalue()
    assert "loss 0.1235  epoch 3" in screen.getvalue()


def test_without_rich_nothing_is_shown_and_nothing_breaks() -> None:
    code = (
        "import sys; sys.modules['rich'] = None; import aleator.progress as p\n"
        "sys.stderr.isatty = lambda: True\n"
        "with p.progress('work', 1) as bar: bar.advance(1, loss=1.0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
