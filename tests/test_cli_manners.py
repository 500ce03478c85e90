"""How the command line behaves: help, completion, progress, interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from command_line import PROGRAM, output, run
from tightset.cli.standard_streams import written

COMMANDS = ["reproduce", "compare", "calibrate", "predict", "evaluate", "inspect", "bench"]


def test_help_lists_the_commands():
    text = output("--help")
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert output("-h") == text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_example(command):
    text = output(command, "--help")
    assert text.count(f"  tightset {command}") >= 2
    assert "--json" in text


def test_without_arguments_there_is_help():
    assert output() == output("--help")


def test_version():
    import tightset

    assert output("--version") == f"tightset {tightset.__version__}\n"


def test_completion_of_commands_and_recipes():
    def complete(line):
        env = {**os.environ, "_TIGHTSET_COMPLETE": "complete_bash", "COMP_WORDS": line}
        env["COMP_CWORD"] = str(len(line.split()) if line.endswith(" ") else len(line.split()) - 1)
        return run(env=env).stdout.decode().split()

    assert complete("tightset ca") == ["calibrate"]
    assert complete("tightset calibrate x.npy -r er-a") == ["er-aps"]
    assert "carer" in complete("tightset reproduce --dataset ")


def test_progress_is_shown_on_a_terminal_only(tmp_path):
    import pty

    arguments = ["reproduce", "-d", "carer", "--recipes", "aps", "--splits", "4", "--no-plots"]
    arguments += ["-o", str(tmp_path)]
    main, side = pty.openpty()
    with subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=side) as process:
        os.close(side)
        shown = b""
        while True:
            try:
                part = os.read(main, 4096)
            except OSError:  # Linux says so when the other side is closed
                break
            if not part:
                break
            shown += part
        text = process.stdout.read().decode()
    os.close(main)
    assert b"selecting [" in shown
    assert shown.endswith(b"\r\x1b[K")
    assert output(*arguments) == text


def test_interruption_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "made"
    arguments = [PROGRAM, "reproduce", "-d", "mnist", "--recipes", "er-aps", "-o", str(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not folder.exists():  # made before the work begins
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
    assert process.returncode == 130
    assert out == b""
    assert error == b"tightset: error: interrupted\n"
    assert list(folder.iterdir()) == []


def test_a_reader_that_has_gone_is_no_error(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "both.npz", logits=rng.normal(size=(20000, 3)), labels=rng.integers(3, size=20000))
    run("calibrate", "both.npz", "-o", "p.json", "-r", "thr", cwd=tmp_path)
    command = [PROGRAM, "predict", "p.json", "both.npz"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
    assert process.returncode == 0
    assert error == b""


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_file_is_written_whole_or_not_at_all(tmp_path, error):
    path = tmp_path / "out.bin"
    path.write_bytes(b"before")

    def fail():
        with written(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert [p.name for p in tmp_path.iterdir()] == ["out.bin"]
    assert path.read_bytes() == b"before"
    with written(path) as file:
        file.write(b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["out.bin"]
    assert path.read_bytes() == b"whole"


def test_import_of_the_package_brings_no_command_line():
    code = "import sys, tightset; print(*(m for m in sys.modules if 'typer' in m or 'tightset.cli' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b""
