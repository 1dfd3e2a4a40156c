"""The directory of a run: the names of its files, and who may write them.

workdir = Workdir("build/run")
with workdir.claim(flags):             # nobody else trains in it meanwhile
    ...
workdir.load_classifier(), workdir.metrics, workdir.evaluation("quick")
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterator

import keras

from adt_tf import files
from adt_tf.runs import lock
from adt_tf.runs.config import FLAGS_FILE, OF_EARLIER_RUNS, Config
from adt_tf.serving import loading

# Begins the first line of flags.txt; in flagfiles it is a comment.
_FORMAT = "# Flags of a run of adt_tf, format "
# Where data lies and when a run is saved do not change what it computes.
_MAY_DIFFER = tuple(
    field.name
    for field in dataclasses.fields(Config)
    if not field.metadata["decides"]
)


class Workdir:
    """All that a run leaves, by name.

    Args:
        path: Directory of the run; it need not be there yet.

    Attributes:
        flags: Resolved flags, in the form of a flagfile.
        provenance: Code and data of each start.
        metrics: Metrics of each epoch.
        tensorboard: Directory of TensorBoard's files.
        checkpoints: Directory of the saved states.
        classifier: Classifier of the last epoch; there once it is finished.
        best: Classifier of the best epoch, where it was asked for.
        lint: Findings of adt-lint.
        saved_model: Directory of the exported classifier.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self.flags = self.path / FLAGS_FILE
        self.provenance = self.path / "provenance.json"
        self.metrics = self.path / "metrics.csv"
        self.tensorboard = self.path / "tensorboard"
        self.checkpoints = self.path / "checkpoints"
        self.classifier = self.path / "classifier.keras"
        self.best = self.path / "best.keras"
        self.lint = self.path / "lint.json"
        self.saved_model = self.path / "saved_model"
        self._lock = self.path / ".lock"

    def evaluation(self, protocol: str | None = None) -> pathlib.Path:
        """Returns the file of an evaluation; .csv and .md stand beside it."""
        suffix = f"-{protocol}" if protocol else ""
        return self.path / f"evaluation{suffix}.json"

    def protocols(self) -> list[str]:
        """Returns the protocols by which the run was evaluated."""
        stems = sorted(
            path.stem for path in self.path.glob("evaluation-*.json")
        )
        return [stem.removeprefix("evaluation-") for stem in stems]

    @property
    def is_run(self) -> bool:
        """Whether a run was begun here."""
        return self.flags.is_file()

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended."""
        return self.classifier.is_file()

    @property
    def chosen_classifier(self) -> pathlib.Path:
        """File of the classifier to use: the best where kept, or the last."""
        return self.best if self.best.exists() else self.classifier

    def fingerprint(self) -> str | None:
        """Tells the classifier from another one; None before there is one."""
        if not self.chosen_classifier.is_file():
            return None
        return files.sha256(self.chosen_classifier)[:16]

    def settled(self, config: Config) -> Config:
        """Returns a configuration with what the run here has settled.

        Args:
            config: The configuration of the run. What it leaves to the
                machine is what it was when the run began.
        """
        if not self.is_run or config.search_precision != "auto":
            return config
        before = Config.from_workdir(self.path, data_dir=None)
        return dataclasses.replace(
            config, search_precision=before.search_precision
        )

    def load_classifier(self) -> keras.Model:
        """Loads the classifier of a finished run."""
        if not self.is_finished:
            raise ValueError(
                f"{self.classifier} does not exist: the run has not finished. "
                "Train it with adt-train first."
            )
        return loading.load(self.chosen_classifier)

    def save_classifier(self, classifier: keras.Model) -> None:
        """Saves the classifier of the last epoch, whole or not at all."""
        if not self.path.is_dir():
            raise ValueError(
                f"{self.path} was moved or removed, so the classifier could "
                "not be saved there. Repeat the command with the --workdir "
                "that it is now."
            )
        with files.atomic_write(self.classifier) as partial:
            classifier.save(partial)

    @contextlib.contextmanager
    def claim(
        self, flags: str | None = None, *, writes: bool = True
    ) -> Iterator[None]:
        """Keeps other processes from training here inside the block.

        Args:
            flags: Resolved flags of the run. They are written if this is a new
                or empty directory, or where the run that is there is to have
                more epochs, and refused if they are those of another run; None
                neither checks nor writes any.
            writes: False for a process that only reads what another one
                writes: it takes no lock.
        """
        self._refuse_links()
        self._check_flags_or_longer(flags)
        if not writes:
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lock.held(self._lock))
            except lock.Locked as error:
                raise ValueError(
                    f"Another process is training in {self.path}, so nothing "
                    "was changed. Wait until it has ended, or choose another "
                    "--workdir."
                ) from error
            self._check_flags_or_longer(flags)
            previous_epochs = self.epochs_to_extend(flags)
            if previous_epochs is not None:
                self._reopen(previous_epochs)
            if flags is not None and (
                previous_epochs is not None or not self.is_run
            ):
                files.write_text(self.flags, f"{_FORMAT}1\n{flags}")
            yield
            files.remove_leftovers(self.path)

    def epochs_to_extend(self, flags: str | None) -> int | None:
        """Returns the epochs of the run here, where more are asked for.

        Args:
            flags: Resolved flags of a run.

        Returns:
            The number of epochs of the run that is here, if the flags are its
            own but for a larger number of epochs; None otherwise.
        """
        if flags is None or not self.is_run:
            return None
        ours, theirs = _compared(flags), _compared(self.read_flags())
        now, before = _epochs(ours - theirs), _epochs(theirs - ours)
        return before if now and before and now > before else None

    def _check_flags_or_longer(self, flags: str | None) -> None:
        if self.epochs_to_extend(flags) is None:
            self.check_flags(flags)

    def _reopen(self, epochs: int) -> None:
        """Sets the classifier of a finished run aside, so that it goes on.

        This comes before the new flags are written: a process that is killed
        in between leaves a run that is not finished, with its old flags.
        """
        if self.is_finished:
            name = f"classifier-epoch-{epochs}.keras"
            os.replace(self.classifier, self.classifier.with_name(name))
            print(f"The classifier of {epochs} epochs is now {name}.")

    def check_flags(self, flags: str | None) -> None:
        """Raises `ValueError` where something else than this run is here.

        Args:
            flags: Resolved flags of the run; None takes whatever is here.
        """
        if flags is None or not self.path.exists():
            return
        if self.is_run:
            ours, theirs = _compared(flags), _compared(self.read_flags())
            now, before = _epochs(ours - theirs), _epochs(theirs - ours)
            if now and before and now < before:
                raise ValueError(
                    f"The run in {self.path} has --epochs={before}, and can be "
                    "made longer but not shorter, so nothing was changed. "
                    f"Received: --epochs={now}; choose another --workdir."
                )
            if ours != theirs:
                raise ValueError(
                    f"{self.flags} holds another configuration, so nothing was "
                    f"changed. There, not here: {sorted(theirs - ours)}; here, "
                    f"not there: {sorted(ours - theirs)}. Choose another "
                    "--workdir."
                )
        elif not all(
            path == self._lock or files.is_leftover(path)
            for path in self.path.iterdir()
        ):
            raise ValueError(
                f"{self.path} is not empty and is no run's workdir, so nothing "
                "was changed. Choose another --workdir."
            )

    def read_flags(self) -> str:
        """Returns the text of the flags; refuses what is no list of flags.

        Version 0.1.0 wrote no format.
        """
        text = files.read_text(self.flags)
        if text.startswith(_FORMAT):
            number = text.splitlines()[0].removeprefix(_FORMAT)
            if number != "1":
                raise ValueError(
                    f"{self.flags}: the format must be 1, the one that this "
                    f"version of adt_tf reads. Received: {number:.80}; use "
                    "the version that wrote it."
                )
        for line in text.splitlines():
            if line.strip() and not line.startswith(("#", "//", "--")):
                raise ValueError(
                    f"{self.flags}: every line must be a flag, as in "
                    f"--epochs=30. Received: {line[:80]!r}"
                )
        return text

    def _refuse_links(self) -> None:
        """Refuses what would lead out of the directory if it were written."""
        directories = [self.checkpoints, self.tensorboard]
        inside = [
            path
            for directory in directories
            if directory.is_dir() and not directory.is_symlink()
            for path in directory.iterdir()
        ]
        for path in [*directories, self.metrics, self._lock, *inside]:
            if path.is_symlink():
                raise ValueError(
                    f"{path} is a symbolic link, through which a run would "
                    "write or delete elsewhere, so nothing was changed. Remove "
                    "the link, or choose another --workdir."
                )


def _epochs(flags: set[str]) -> int | None:
    """Returns the number of epochs, where that is the only flag."""
    match = re.fullmatch(r"--epochs=(\d+)", " ".join(flags))
    return int(match[1]) if match else None


def _compared(flags: str) -> set[str]:
    """The flags that decide a run; one that is not written has its default.

    So a run of an earlier version goes on, which did not know all flags.
    """
    lines = {}
    earlier = Config(**OF_EARLIER_RUNS).to_flags()
    for line in [*earlier.splitlines(), *flags.splitlines()]:
        name, equals, _ = line.lstrip("-").partition("=")
        name = name if equals else name.removeprefix("no")
        if line.startswith("--") and name not in _MAY_DIFFER:
            lines[name] = line
    return set(lines.values())
