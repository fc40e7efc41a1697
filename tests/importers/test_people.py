"""What is left out of texts, and above all what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.importers.people import People, without_homes

ROOT_HOME = f"/{'root'}"  # where root lives; no path of a real machine
CASEY = People.named(["casey", "root", "ab"], ["gpu-node-17", "localhost"])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/home/casey/venv/bin/python3", "[home]/python3"),
        ("/home/casey", "[home]"),
        ("/Users/casey/a b", "[home]/a b"),
        (f"{ROOT_HOME}/.cache/x.so: cannot open", "[home]/x.so: cannot open"),
        ("C:\\Users\\casey\\nsys\\x.exe", "[home]/x.exe"),
        ("dlopen('/home/casey/lib/libcudnn.so.9')", "dlopen('[home]/libcudnn.so.9')"),
        ("see /home/a/b.log and /home/c/d.log.", "see [home]/b.log and [home]/d.log."),
        ("/usr/lib/x/libcuda.so", "/usr/lib/x/libcuda.so"),
        ("/v1/home/chat", "/v1/home/chat"),
        ("/homework/x", "/homework/x"),
        ("/rooted/x", "/rooted/x"),
        ("void f<(int)1>(T*) [/home]", "void f<(int)1>(T*) [/home]"),
    ],
)
def test_home_folders(text: str, clean: str) -> None:
    assert without_homes(text) == clean
    assert without_homes(clean) == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/scratch/casey/run", "/scratch/[somebody]/run"),
        ("~casey/run", "~[somebody]/run"),
        ("casey@gpu-node-17", "[somebody]@[host]"),
        ("http://gpu-node-17:8000/v1", "http://[host]:8000/v1"),
        ("gpu-node-170 and my-gpu-node-17", "gpu-node-170 and my-gpu-node-17"),
        ("caseys kernel, casey", "caseys kernel, casey"),
        (f"/scratch{ROOT_HOME}/ab on localhost", f"/scratch{ROOT_HOME}/ab on localhost"),
    ],
)
def test_persons_and_hosts(text: str, clean: str) -> None:
    assert CASEY.left_out_of(text) == clean


@examples()
@given(st.text(st.sampled_from("/\\homeUsrt. :ca'ä\0~@"), max_size=40))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    clean = CASEY.left_out_of(text)
    assert CASEY.left_out_of(clean) == clean
    assert People.named((), ()).left_out_of(text) == without_homes(text)
