"""Addresses: what they name, what is shown of them, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.remote_path import RemotePath, locate


def test_a_name_of_a_file_is_a_path():
    assert locate("stacks/one.tif") == Path("stacks/one.tif")


def test_passwords_and_tokens_are_sent_but_never_shown():
    path = locate("https://reader:secret@host.example:8443/stacks/one.ome.zarr?token=hidden")

    assert path.address == "https://reader:secret@host.example:8443/stacks/one.ome.zarr?token=hidden"
    assert str(path) == "https://host.example:8443/stacks/one.ome.zarr"
    shown = f"{path} {path!r} {path.parent!r} {[path]}"
    assert "secret" not in shown
    assert "hidden" not in shown
    assert "reader" not in shown


def test_files_of_a_folder_are_asked_for_with_its_token():
    path = locate("https://host.example/one.ome.zarr?token=hidden") / "0/zarr.json"

    assert path.address == "https://host.example/one.ome.zarr/0/zarr.json?token=hidden"
    assert (path.name, path.suffix, str(path.parent)) == ("zarr.json", ".json", "https://host.example/one.ome.zarr/0")


def test_addresses_that_differ_in_the_token_only_are_two():
    one, other = (locate(f"https://host.example/get?id={number}") for number in (1, 2))

    assert one != other
    assert one.key != other.key
    assert str(one) == str(other)


def test_an_address_survives_being_sent_to_another_process():
    path = locate("s3://bucket/folder/one.ome.zarr")

    assert pickle.loads(pickle.dumps(path)) == path == RemotePath("s3", "bucket", "folder/one.ome.zarr")


@pytest.mark.parametrize("text", ["ftp://host/one.tif", "gs://bucket/one.tif", "file:///one.tif"])
def test_other_kinds_of_servers_are_refused_by_name(text):
    with pytest.raises(InvalidConfigError, match="http://, https://, s3:// or the name of a file is needed: copy it"):
        locate(text)


@pytest.mark.parametrize("text", ["https://", "https:///one.tif", "s3://bucket", "https://host/a/../b", "https://host/a b.tif"])
def test_an_address_of_no_file_is_refused(text):
    with pytest.raises(InvalidConfigError, match=r"is no address of a file; .*: correct it"):
        locate(text)


def test_credentials_in_the_address_of_a_bucket_are_refused_and_not_shown():
    with pytest.raises(InvalidConfigError, match="s3:// takes credentials from AWS' settings") as refused:
        locate("s3://key:secret@bucket/one.ome.zarr")

    assert "secret" not in str(refused.value)
