"""What is left out of texts, and above all what is not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.phases.test_rules import CASES
from tests.strategies import examples
from traceanalyzer.importers.people import People, impersonal

ROOT_HOME = f"/{'root'}"  # where root lives; no path of a real machine
KERNEL_NAMES = Path(__file__).parents[1] / "kernels" / "names"
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
        ("/mnt/home/casey/models/w.pt", "[home]/w.pt"),
        ("/data/users/casey/w", "[home]/w"),
        ("/nfs/homes/casey/x", "[home]/x"),
        ("/lustre/fs1/home/casey/a/b.pt and more", "[home]/b.pt and more"),
        ("/home2/team/casey/x", "[home]/x"),
        ("file:///home/casey/w.pt", "file://[home]/w.pt"),
        ("nfs://srv/home/casey/w.pt", "nfs://[host][home]/w.pt"),
        ("cd ~casey/models/a", "cd ~[somebody]/models/a"),
        ("Pool::~Pool/2 and a/~b/c", "Pool::~Pool/2 and a/~b/c"),
        ("/v1/home/chat", "/v1/home/chat"),
        ("/v1/users/7", "/v1/users/7"),
        ("draft/users/step/1", "draft/users/step/1"),
        ("/homework/x", "/homework/x"),
        ("/rooted/x", "/rooted/x"),
        ("void f<(int)1>(T*) [/home]", "void f<(int)1>(T*) [/home]"),
    ],
)
def test_home_folders(text: str, clean: str) -> None:
    assert impersonal(text) == clean
    assert impersonal(clean) == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/scratch/casey/run", "/scratch/[somebody]/run"),
        ("~casey/run", "~[somebody]/run"),
        ("casey@gpu-node-17", "[somebody]@[host]"),
        ("http://gpu-node-17:8000/v1", "http://[host]:8000/v1"),
        ("gpu-node-17.prod.corp, gpu-node-17.", "[host], [host]."),
        ("gpu-node-170 and my-gpu-node-17", "gpu-node-170 and my-gpu-node-17"),
        ("caseys kernel, casey", "caseys kernel, casey"),
        (f"/scratch{ROOT_HOME}/ab on localhost", f"/scratch{ROOT_HOME}/ab on localhost"),
    ],
)
def test_persons_and_hosts(text: str, clean: str) -> None:
    assert CASEY.left_out_of(text) == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("http://casey:pw@gpu.internal.corp:8080/v1", "http://[somebody]@[host]:8080/v1"),
        ("https://example.org/a http://gpu.lan/v1", "https://example.org/a http://[host]/v1"),
        ("http://gpu.example.org:8000 http://10.0.0.3", "http://[host]:8000 http://[host]"),
        ("tcp://10.0.0.3:29500", "tcp://[host]:29500"),
        (
            "http://localhost:8000/v1 tcp://127.0.0.1:1",
            "http://localhost:8000/v1 tcp://127.0.0.1:1",
        ),
        ("OPENAI_API_KEY=sk-not-one", "OPENAI_API_KEY=[secret]"),
        ("run HF_TOKEN=abc; MY_KEY='d e'", "run HF_TOKEN=[secret]; MY_KEY='[secret] e'"),
        ("?api_key=abc&n=1", "?api_key=[secret]&n=1"),
        ('{"password": "abc"}', '{"password": "[secret]"}'),
        (f"hf_{'aB3' * 11} loads", "[secret] loads"),
        (f"sk-proj-{'aB3' * 9}", "[secret]"),
        (f"ghp_{'aB3' * 12}", "[secret]"),
        (f"Authorization: Bearer {'aB3' * 9}", "Authorization: Bearer [secret]"),
        ("num_tokens=128 MAX_TOKENS=8 TOKEN=7", "num_tokens=128 MAX_TOKENS=8 TOKEN=7"),
        ("hf_rotary_embedding_kernel", "hf_rotary_embedding_kernel"),
        ("task-split-k2-reduction-kernel", "task-split-k2-reduction-kernel"),
    ],
)
def test_secrets(text: str, clean: str) -> None:
    assert impersonal(text) == clean
    assert impersonal(clean) == clean


def test_names_of_kernels_and_phases_stay() -> None:
    kernels = [
        line.split("\t")[0]
        for file in sorted(KERNEL_NAMES.glob("*.tsv"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    phases = [name for _, name, *_ in CASES]
    assert min(len(kernels), len(phases)) > 100
    for name in (*kernels, *phases):
        assert CASEY.left_out_of(name) == name


@pytest.mark.parametrize("piece", ["/a", "a.", "A_", "a-", "key=", "~a", "://", "/home", "/home/"])
def test_long_texts_take_no_time(piece: str) -> None:
    started = time.process_time()
    CASEY.left_out_of(piece * 20_000 + "://=")
    assert time.process_time() - started < 1


@example("~/users/gpu-node-17/users/~")
@examples()
@given(
    st.lists(
        st.sampled_from(
            ("/home", "/users/", "/", "~", "casey", "://", "@", ":", "=", "[", "]", "[host]", "a b",
             "API_KEY", "TOKEN=", "sk-", "aB3" * 10, "gpu-node-17", ".corp", "'", " ", "hf_")
        ),
        max_size=12,
    ).map("".join)
)  # fmt: skip
def test_cleaning_twice_is_cleaning_once_with_secrets(text: str) -> None:
    clean = CASEY.left_out_of(text)
    assert CASEY.left_out_of(clean) == clean


@examples()
@given(st.text(st.sampled_from("/\\homeUsrt. :ca'ä\0~@"), max_size=40))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    clean = CASEY.left_out_of(text)
    assert CASEY.left_out_of(clean) == clean
    assert People.named((), ()).left_out_of(text) == impersonal(text)
