"""What all commands share: help, version, one line for an error or Ctrl-C."""

import dataclasses
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
import tensorflow as tf
from absl import flags

import adt_tf
from adt_tf.cli import command as commands
from adt_tf.cli import evaluate, export, limits, lint, report, reproduce, train
from adt_tf.runs.config import Config
from tests.support import in_process

ROOT = pathlib.Path(__file__).parents[1]
COMMANDS = {
    "train": train,
    "evaluate": evaluate,
    "lint": lint,
    "export": export,
    "report": report,
    "reproduce": reproduce,
}


def start(command, *arguments, **environment):
    return subprocess.Popen(
        [sys.executable, f"scripts/{command}.py", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_answers_at_once(command):
    """Counted in processor time, which other processes do not change."""

    def seconds():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = seconds()
    process = start(command, "--help")
    out, err = process.communicate()
    assert seconds() - before < 0.5
    assert (process.returncode, err) == (0, "")
    module = COMMANDS[command]
    assert out.startswith(module.__doc__.splitlines()[0])
    assert f"    adt-{command} --" in out
    own = [
        flag
        for group, flags in module.FLAGS.flags_by_module_dict().items()
        for flag in flags
        if " " not in group
    ]
    assert own
    for flag in own:
        label = f"--[no]{flag.name}: " if flag.boolean else f"--{flag.name}: "
        assert f"\n  {label}" in out
    assert max(map(len, out.splitlines())) < 80


def test_help_lists_the_flags_that_a_command_takes():
    fields = dataclasses.fields(Config)
    helps = {c: in_process.run(c, "--help").stdout for c in COMMANDS}
    for field in fields:
        is_switch = "bool" in field.type
        label = f"--[no]{field.name}:" if is_switch else f"--{field.name}:"
        assert label in helps["train"]
        is_shown = field.name in (
            ["dataset", "data_dir", "download", "norm", "epsilon", "seed"]
            + ["image_size", "architecture", "stream"]
        )
        assert (label in helps["lint"]) == is_shown
    assert "--train_examples:" in helps["evaluate"]
    assert "(default: 30)" in helps["train"]
    assert "One of mean, sum." in " ".join(helps["train"].split())


@pytest.mark.parametrize("flag", ["-h", "-help", "--helpfull", "-?"])
def test_other_words_for_help(flag):
    done = in_process.run("train", "--epochs=none", flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == in_process.run("train", "--help").stdout


def test_version():
    for command in COMMANDS:
        done = in_process.run(command, "--version")
        assert done.stdout == f"adt-{command} {adt_tf.__version__}\n"
        assert done.returncode == 0


def test_a_command_forgets_the_flags_of_the_last_one(tmp_path):
    path = f"--workdir={tmp_path}/none"
    first = in_process.run("train", "--epochs=0", path)
    second = in_process.run("train", "--batch_size=0", path)
    assert "--epochs must be at least 1. Received: 0" in first.stderr
    assert "--batch_size must be at least 1. Received: 0" in second.stderr


def test_flags_with_a_space(tmp_path):
    """As absl takes them, of every type."""
    path = str(tmp_path / "none")
    for name, value in {"epochs": "0", "epsilon": "-1"}.items():
        done = in_process.run("train", "--workdir", path, f"--{name}", value)
        assert f"--{name} must be at least" in done.stderr


def test_bad_flags_are_refused_before_tensorflow_is_imported(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('imported')\n")
    environment = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    for flag in ("--epochs=0", "--learning_rate=nan", "--flagfile=none"):
        process = start(
            "train", flag, f"--workdir={tmp_path}/run", **environment
        )
        _, told = process.communicate()
        assert process.returncode == 1
        assert told.startswith("error: ") and "imported" not in told
        assert len(told.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tensorflow.py"]


def failing_import(tmp_path, source):
    """Runs a command whose TensorFlow is another one."""
    (tmp_path / "tensorflow.py").write_text(source)
    process = start(
        "train",
        f"--workdir={tmp_path}/run",
        PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}",
    )
    _, told = process.communicate(timeout=100)
    return process.returncode, told


@pytest.mark.parametrize("end", ["abort()", "kill(os.getpid(), 9)", "_exit(3)"])
def test_a_death_in_the_import_is_told(end, tmp_path):
    """As where the processor lacks instructions that TensorFlow needs."""
    code, told = failing_import(
        tmp_path,
        f"import os\nos.write(2, b'no such instruction\\n')\nos.{end}\n",
    )
    assert code == {"abort()": -6, "_exit(3)": 3}.get(end, -9)
    assert "no such instruction\n" in told
    assert "ended while it imported TensorFlow" in told.splitlines()[-1]


def test_an_import_that_fails_is_told(tmp_path):
    code, told = failing_import(
        tmp_path,
        "import os\nos.write(2, b'a library is missing\\n')\n"
        "raise ImportError('libmissing.so')\n",
    )
    assert code == 1
    assert told.index("a library is missing") < told.index("Traceback")
    assert told.rstrip().endswith("ImportError: libmissing.so")
    assert "ended while" not in told


def test_what_an_import_that_succeeds_says_is_not_told(tmp_path):
    """It goes on to the next import, which there is none of."""
    code, told = failing_import(
        tmp_path,
        "import os, sys, types\n"
        "os.write(2, b'noise of C++\\n' * 10_000)\n"
        "class Any(types.ModuleType):\n"
        "    def __getattr__(self, name): return Any(name)\n"
        "    def __call__(self, *a, **k): return Any('x')\n"
        "sys.modules['tensorflow'] = Any('tensorflow')\n"
        "sys.modules['tensorflow_probability'] = Any('tfp')\n"
        "import atexit\n"
        "sys.modules['adt_tf.networks'] = None\n",
    )
    assert code == 1 and "noise" not in told
    assert "adt_tf.networks" in told


def wait_for(process, condition):
    while not condition():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)


def interrupted(process):
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=300)
    assert told == "Interrupted. Repeat the command to continue.\n"
    assert process.returncode == 130


def test_interrupted_in_the_import(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import os, pathlib, time\n"
        "os.write(2, b'noise of C++\\n')\n"
        f"pathlib.Path({str(tmp_path)!r}, 'begun').touch()\n"
        "time.sleep(1000)\n"
    )
    process = start(
        "train",
        f"--workdir={tmp_path}/run",
        PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}",
    )
    wait_for(process, (tmp_path / "begun").exists)
    interrupted(process)


def test_interrupted_in_training(tmp_path):
    workdir = tmp_path / "run"
    process = start(
        "train",
        "--flagfile=digits/at_pgd",
        "--epochs=1000",
        f"--workdir={workdir}",
        TF_CPP_MIN_LOG_LEVEL="3",
    )
    wait_for(process, lambda: list(workdir.glob("checkpoints/step-*")))
    interrupted(process)


# The package is imported lazily.


def test_the_package_is_lazy_and_complete():
    program = (
        "import sys, adt_tf\n"
        "assert 'tensorflow' not in sys.modules\n"
        "names = dir(adt_tf)\n"
        "assert set(adt_tf.__all__) <= set(names), names\n"
        "assert {'analysis', 'runs', 'report', '__version__'} <= set(names)\n"
        "assert 'tensorflow' not in sys.modules\n"
        "assert callable(adt_tf.attacks.pgd)\n"
        "assert 'tensorflow' in sys.modules\n"
        "assert adt_tf.training.trainer.AdversarialTrainer is "
        "adt_tf.AdversarialTrainer\n"
        "for name in names:\n"
        "    assert getattr(adt_tf, name) is getattr(adt_tf, name), name\n"
        "space = {}\n"
        "exec('from adt_tf import *', space)\n"
        "assert set(adt_tf.__all__) <= set(space)\n"
        "assert adt_tf.evaluate.__name__ == 'evaluate'\n"
        "try:\n"
        "    adt_tf.nothing\n"
        "except AttributeError as error:\n"
        "    assert \"no attribute 'nothing'\" in str(error)\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_type_checkers_see_every_name():
    """What is imported for them alone is what there is."""
    source = (ROOT / "adt_tf" / "__init__.py").read_text()
    block = source.split("if TYPE_CHECKING:\n")[1].split("\n__all__")[0]
    space = {}
    exec("if True:\n" + block, space)
    for name in set(dir(adt_tf)) & set(space) - {"__builtins__"}:
        if not name.startswith("__"):
            assert getattr(adt_tf, name) is space[name]
    assert set(adt_tf.__all__) | set(adt_tf._MODULES) <= set(space)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nobody_reads_the_help(unbuffered):
    """As in `adt-train --help | head -1`."""
    process = start("train", "--help", PYTHONUNBUFFERED=unbuffered)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(20) == 0


def limited(command, *arguments, **limits):
    """Runs a command as after `ulimit`; returns its code and its errors."""

    def set_limits():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))

    done = subprocess.run(
        [sys.executable, f"scripts/{command}.py", *map(str, arguments)],
        cwd=ROOT,
        preexec_fn=set_limits,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "limits, option",
    [({"RLIMIT_AS": 1_500_000 << 10}, "-v"), ({"RLIMIT_DATA": 1 << 29}, "-d")],
)
def test_too_little_memory_is_told_before_the_import(limits, option, tmp_path):
    code, told = limited("train", f"--workdir={tmp_path}/run", **limits)
    assert code == 1 and len(told.splitlines()) == 1
    assert f"ulimit {option} unlimited" in told
    assert not (tmp_path / "run").exists()


def test_too_few_threads_are_told(monkeypatch):
    running = []

    def start_one(self):
        if len(running) == 5:
            raise RuntimeError("can't start new thread")
        running.append(self)
        thread_start(self)

    thread_start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(ValueError, match="Only 5 more threads .*ulimit -u"):
        limits.check_limits()
    assert not any(thread.is_alive() for thread in running)


@pytest.mark.parametrize(
    "error, words",
    [
        (MemoryError(), "not enough memory"),
        (
            tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"),
            "not enough memory",
        ),
        (
            RuntimeError("Error parsing: Arena alloc failed\nx"),
            "not enough mem",
        ),
        (BrokenPipeError(32, "Broken pipe"), "The reader of the output"),
    ],
)
def test_errors_that_become_one_line(error, words, monkeypatch, capsys):
    def work():
        raise error

    monkeypatch.setattr(sys, "argv", ["adt-test"])
    with pytest.raises(SystemExit) as end:
        commands.run("adt-test", "Fails.", flags.FlagValues(), work)
    assert end.value.code.startswith("error: ") and words in end.value.code
    assert "\n" not in end.value.code


def test_what_the_encoding_lacks_is_escaped():
    """As the bytes of an odd path, or a bar of progress."""
    source = (
        "import sys\n"
        "from absl import flags\n"
        "from adt_tf.cli import command\n"
        "sys.argv = ['adt-test']\n"
        "def work():\n"
        "    print('\\u2501', '\\udcff')\n"
        "command.run('adt-test', 'Works.', flags.FlagValues(), work)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"\\u2501 \\udcff\n"


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_standard_stream_that_is_closed(number, tmp_path):
    """A file that is opened then must not take its place."""
    source = (
        "import os, sys\n"
        f"os.close({number})\n"
        "from absl import flags\n"
        "from adt_tf.cli import command\n"
        f"sys.argv = ['adt-test']\n"
        "def work():\n"
        f"    file = open({str(tmp_path / 'mine')!r}, 'w')\n"
        "    print('out'); print('err', file=sys.stderr)\n"
        "    os.write(1, b'out'), os.write(2, b'err'), sys.stdin.read()\n"
        "    file.write(str(file.fileno() > 2))\n"
        "command.run('adt-test', 'Works.', flags.FlagValues(), work)\n"
    )
    subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert (tmp_path / "mine").read_text() == "True"
