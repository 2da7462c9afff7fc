"""Servers on this machine: one of files, which can misbehave, and one of buckets."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from qmcif_engine.io import remote

if TYPE_CHECKING:
    from pathlib import Path

BUCKET = "stacks"


class FileServer(ThreadingHTTPServer):
    """Files of a folder, in parts where they are asked for.

    Attributes
    ----------
    sends_parts : bool
    n_lost : int
        So many answers from now on end after half of their bytes.
    n_busy : int
        So many requests from now on are answered with status 503.
    leads_to : str
        Where every request is sent on to, if it is not empty.
    extra : bytes
        What follows every file.
    requests : list of str
        Paths that were asked for, with the range.
    headers : list of dict
        Of these requests.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.sends_parts, self.n_lost, self.n_busy, self.leads_to, self.extra = folder, True, 0, 0, "", b""
        self.requests, self.headers = [], []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """A client that went away is no reason to print anything."""

    def take(self, name: str) -> bool:
        """Count one of the answers that are to fail."""
        with self.lock:
            count = getattr(self, name)
            setattr(self, name, max(count - 1, 0))
        return count > 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        path, asked = self.path.partition("?")[0], self.headers.get("Range", "")
        with server.lock:
            if self.command == "GET":
                server.requests.append(f"{path} {asked}".strip())
            server.headers.append({**self.headers, "query": self.path.partition("?")[2]})
        file = server.folder / path.lstrip("/")
        if server.leads_to:
            self.answer(302, b"", {"Location": server.leads_to + self.path})
        elif server.take("n_busy"):
            self.answer(503, b"")
        elif not file.is_file():
            self.answer(404, b"no such file")
        else:
            self.send_file(file.read_bytes() + server.extra, asked)

    do_HEAD = do_GET

    def send_file(self, content, asked):
        headers = {"ETag": f'"{hash(content)}"'}
        if not (self.server.sends_parts and asked):
            self.answer(200, content, headers)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(len(content) - int(last), 0)
        end = min(int(last) + 1, len(content)) if first and last else len(content)
        if start >= len(content):
            self.answer(416, b"")
            return
        self.answer(206, content[start:end], headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"})

    def answer(self, status, content, headers=None):
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if content and self.server.take("n_lost"):
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)


@pytest.fixture
def server(tmp_path):
    """A server of the files in the folder ``served``."""
    folder = tmp_path / "served"
    folder.mkdir()
    with FileServer(folder) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def pauses(monkeypatch):
    """The pauses between requests, which are noted instead of waited for."""
    noted = []
    monkeypatch.setattr(remote, "sleep", noted.append)
    return noted


@pytest.fixture(scope="session")
def bucket_server():
    """A server of buckets, for all tests of this process."""
    moto_server = pytest.importorskip("moto.server")
    running = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def bucket(bucket_server, monkeypatch):
    """An empty bucket and its client, with the settings of AWS that lead there."""
    import boto3

    settings = {"AWS_ACCESS_KEY_ID": "known", "AWS_SECRET_ACCESS_KEY": "hidden-word", "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in {**settings, "AWS_ENDPOINT_URL": bucket_server}.items():
        monkeypatch.setenv(name, value)
    remote.connect.cache_clear()
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    yield Bucket(client)
    Bucket(client).clear()
    client.delete_bucket(Bucket=BUCKET)
    client.close()


class Bucket:
    """A bucket, looked at and filled by another library."""

    def __init__(self, client) -> None:
        self.client, self.address = client, f"s3://{BUCKET}"

    def list_keys(self):
        listed = self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [item["Key"] for item in listed]

    def upload(self, folder: Path, key: str):
        for file in [folder] if folder.is_file() else [path for path in folder.rglob("*") if path.is_file()]:
            name = key if folder.is_file() else f"{key}/{file.relative_to(folder).as_posix()}"
            self.client.put_object(Bucket=BUCKET, Key=name, Body=file.read_bytes())

    def download(self, key: str, folder: Path):
        for name in self.list_keys():
            if name.startswith(f"{key}/"):
                target = folder / name.removeprefix(f"{key}/")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read())

    def remove(self, key: str):
        self.client.delete_object(Bucket=BUCKET, Key=key)

    def clear(self):
        for key in self.list_keys():
            self.remove(key)
