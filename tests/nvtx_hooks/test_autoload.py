from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nvtx_hooks
from nvtx_hooks import __main__ as command
from nvtx_hooks import autoload
from nvtx_hooks.autoload import startup_files

REPOSITORY = Path(nvtx_hooks.__file__).parents[1]
INSTALLED = (
    "import sys; m = sys.modules.get('nvtx_hooks.installation');"
    "print('on' if m and m.status().installed else 'off',"
    " sum(type(f).__name__ == 'Watcher' for f in sys.meta_path))"
)
SPAWN = f"""
import multiprocessing, sys
def child(): exec({INSTALLED!r})
if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=child)
    process.start(); process.join()
"""


def python(
    *arguments: str, environment: dict[str, str] | None = None, timeout: int = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={"PATH": os.environ["PATH"], **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def with_site_folder(folder: Path, program: str) -> str:
    """A program that reads the start-up files of `folder` as those of site-packages."""
    return f"import site; site.addsitedir({str(folder)!r}); {program}"


@pytest.mark.parametrize("value", ["1", "true", "yes", "anything"])
@pytest.mark.parametrize("name", ["NVTX_HOOKS", "EAGLE3_PROFILE"])
def test_hooks_are_wanted(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in autoload.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert not autoload.wanted()
    monkeypatch.setenv(name, value)
    assert autoload.wanted()


@pytest.mark.parametrize("value", ["", "0", "false", "OFF", "no "])
def test_hooks_are_not_wanted(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EAGLE3_PROFILE", raising=False)
    monkeypatch.setenv("NVTX_HOOKS", value)
    assert not autoload.wanted()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "off 0"),
        ({"NVTX_HOOKS": "1"}, "on 1"),
        ({"EAGLE3_PROFILE": "1"}, "on 1"),
        ({"NVTX_HOOKS": "0"}, "off 0"),
    ],
)
def test_pth_line(environment: dict[str, str], expected: str, tmp_path: Path) -> None:
    startup_files.write(tmp_path)
    # Twice, as happens in an environment whose lib64 is a link.
    program = with_site_folder(tmp_path, with_site_folder(tmp_path, INSTALLED))
    done = python("-c", program, environment={**environment, "PYTHONPATH": str(REPOSITORY)})
    assert (done.stdout.strip(), done.stderr) == (expected, "")


def test_pth_line_imports_nothing_of_ours_when_off(tmp_path: Path) -> None:
    startup_files.write(tmp_path)
    program = with_site_folder(
        tmp_path, "import sys; print([m for m in sys.modules if 'nvtx' in m])"
    )
    done = python("-c", program, environment={"PYTHONPATH": str(REPOSITORY)})
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("name", sorted(startup_files.CONTENT))
def test_wheel_and_package_write_the_same_files(name: str) -> None:
    beside = Path(autoload.__file__).with_name(name)
    assert beside.read_text() == startup_files.CONTENT[name]


def test_start_file_names_a_function_that_exists() -> None:
    (line,) = startup_files.CONTENT["nvtx_hooks.start"].splitlines()
    assert line == f"{autoload.__name__}:{autoload.start.__name__}"


def test_pth_file_is_one_import_line() -> None:
    text = startup_files.CONTENT["nvtx_hooks.pth"]
    assert text.startswith("import ")
    assert text.count("\n") == 1


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_are_reached(method: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SPAWN)
    done = python(
        "-m", "nvtx_hooks", "--", sys.executable, str(script), method,
        environment={"PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("on 1", "")


def test_command_hands_on_to_a_sitecustomize_it_hides(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')\n")
    done = python(
        "-m", "nvtx_hooks", "--", sys.executable, "-c", INSTALLED,
        environment={"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(tmp_path)])},
    )  # fmt: skip
    assert done.stdout.splitlines()[-2:] == ["theirs", "on 1"]


def test_command_keeps_arguments_and_exit_code() -> None:
    done = python(
        "-m", "nvtx_hooks", "--", sys.executable, "-c",
        "import sys; print(sys.argv[1:]); sys.exit(7)", "--", "a b",
        environment={"PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert (done.stdout.strip(), done.returncode) == ("['--', 'a b']", 7)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, command.USAGE),
        (["--"], 2, command.USAGE),
        (["python"], 2, command.USAGE),
        (["--", "no-such-command-here"], 127, "command not found: no-such-command-here"),
        (["--", "/etc"], 126, "cannot run /etc: "),
    ],
)
def test_wrong_commands_are_told(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == code
    assert message in capsys.readouterr().err


def test_environment_without_and_with_startup_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup_files, "site_folders", lambda: [tmp_path])
    hooked = command.hooked_environment({"PYTHONPATH": "/theirs", "NVTX_HOOKS": "yes"})
    assert hooked["NVTX_HOOKS"] == "yes"
    first, second, third = hooked["PYTHONPATH"].split(os.pathsep)
    assert Path(first, "sitecustomize.py").is_file()
    assert (Path(second), third) == (REPOSITORY, "/theirs")
    startup_files.write(tmp_path)
    hooked = command.hooked_environment({"PYTHONPATH": "/theirs"})
    assert hooked == {"PYTHONPATH": "/theirs", "NVTX_HOOKS": "1"}


def test_startup_files_are_written_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup_files, "site_folders", lambda: [tmp_path])
    assert startup_files.found() == []
    written = startup_files.write(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(written) == sorted(startup_files.found())
    assert startup_files.remove(tmp_path) == written
    assert startup_files.remove(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        startup_files.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_site_folder_is_the_environments() -> None:
    assert startup_files.site_folder() in startup_files.site_folders()
    assert startup_files.site_folder().is_dir()
