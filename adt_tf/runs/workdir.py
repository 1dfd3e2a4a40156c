"""The directory of a run: names of its files, its flags and its lock.

workdir = Workdir("build/run")
with workdir.claim(flags):             # keeps other processes out
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
from adt_tf.runs import file_names, lock
from adt_tf.runs.config import OF_EARLIER_RUNS, Config
from adt_tf.serving import loading

# Beginning of the first line of flags.txt, which is a comment in a flagfile.
_FORMAT = "# Flags of a run of adt_tf, format "
# Flags that do not affect the results, such as the location of the data.
_MAY_DIFFER = tuple(
    field.name
    for field in dataclasses.fields(Config)
    if not field.metadata["decides"]
)


class Workdir:
    """The directory of a run, with the paths of all its files.

    Args:
        path: Directory of the run; it need not exist yet.

    Attributes:
        flags: Resolved flags, in the form of a flagfile.
        provenance: Versions of code and data at each start.
        metrics: Metrics of each epoch.
        tensorboard: Directory of TensorBoard's files.
        checkpoints: Directory of the checkpoints.
        classifier: Classifier of the last epoch; exists once the run is
            finished.
        best: Classifier of the best epoch, with --keep_best.
        lint: Results of adt-lint.
        saved_model: Directory of the exported classifier.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(path)
        self.flags = self.path / file_names.FLAGS
        self.provenance = self.path / file_names.PROVENANCE
        self.metrics = self.path / file_names.METRICS
        self.tensorboard = self.path / file_names.TENSORBOARD
        self.checkpoints = self.path / file_names.CHECKPOINTS
        self.classifier = self.path / file_names.CLASSIFIER
        self.best = self.path / file_names.BEST
        self.lint = self.path / file_names.LINT
        self.saved_model = self.path / file_names.SAVED_MODEL
        self._lock = self.path / file_names.LOCK

    def evaluation(self, protocol: str | None = None) -> pathlib.Path:
        """Returns the JSON file of an evaluation."""
        return self.path / file_names.evaluation(protocol)

    def protocols(self) -> list[str]:
        """Returns the protocols with which the run was evaluated."""
        paths = sorted(self.path.glob(file_names.evaluation("*")))
        return [path.stem.removeprefix("evaluation-") for path in paths]

    @property
    def is_run(self) -> bool:
        """Whether the directory holds a run, finished or not."""
        return self.flags.is_file()

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished."""
        return self.classifier.is_file()

    @property
    def chosen_classifier(self) -> pathlib.Path:
        """File of the best classifier if there is one, else of the last."""
        return self.best if self.best.exists() else self.classifier

    def fingerprint(self) -> str | None:
        """Returns a hash of the classifier's file, or None if it is missing."""
        if not self.chosen_classifier.is_file():
            return None
        return files.sha256(self.chosen_classifier)[:16]

    def settled(self, config: Config) -> Config:
        """Resolves "auto" values of a configuration as the run here did.

        Args:
            config: Configuration to resume the run with. A value "auto" that
                depends on the machine keeps its value from the first start.
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
        """Saves the classifier of the last epoch atomically."""
        if not self.path.is_dir():
            raise ValueError(
                f"{self.path} was moved or removed, so the classifier cannot "
                "be saved there. Repeat the command with the new path as "
                "--workdir."
            )
        with files.atomic_write(self.classifier) as partial:
            classifier.save(partial)

    @contextlib.contextmanager
    def claim(
        self, flags: str | None = None, *, writes: bool = True
    ) -> Iterator[None]:
        """Keeps other processes from training here during the block.

        Args:
            flags: Resolved flags of the run. They are written if the directory
                is new or empty, or if the run here gets more epochs. They are
                refused if the directory holds another run. None neither checks
                nor writes flags.
            writes: Whether this process writes files. A process that only
                reads the files of another one takes no lock.
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
        """Returns the number of epochs of a run that is to be extended.

        Args:
            flags: Resolved flags of a run.

        Returns:
            The number of epochs of the run here, if the flags differ from its
            own only by a larger number of epochs; None otherwise.
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
        """Renames the classifier of a finished run, so that the run continues.

        This comes before the new flags are written. A process that is killed
        in between leaves an unfinished run with its old flags.
        """
        if self.is_finished:
            name = f"classifier-epoch-{epochs}.keras"
            os.replace(self.classifier, self.classifier.with_name(name))
            print(f"Renamed the classifier after {epochs} epochs to {name}.")

    def check_flags(self, flags: str | None) -> None:
        """Raises `ValueError` if the directory holds anything but this run.

        Args:
            flags: Resolved flags of the run; None accepts any content.
        """
        if flags is None or not self.path.exists():
            return
        if self.is_run:
            ours, theirs = _compared(flags), _compared(self.read_flags())
            now, before = _epochs(ours - theirs), _epochs(theirs - ours)
            if now and before and now < before:
                raise ValueError(
                    f"The run in {self.path} has --epochs={before}. It can get "
                    "more epochs but not fewer, so nothing was changed. "
                    f"Received: --epochs={now}; choose another --workdir."
                )
            if ours != theirs:
                raise ValueError(
                    f"{self.flags} holds another configuration, so nothing was "
                    f"changed. Only in the file: {sorted(theirs - ours)}; only "
                    f"in this command: {sorted(ours - theirs)}. Choose another "
                    "--workdir."
                )
        elif not all(
            path == self._lock or files.is_leftover(path)
            for path in self.path.iterdir()
        ):
            raise ValueError(
                f"{self.path} is not empty and is not the workdir of a run, so "
                "nothing was changed. Choose another --workdir."
            )

    def read_flags(self) -> str:
        """Returns the text of flags.txt, or raises if it is malformed.

        Files of version 0.1.0 have no format line.
        """
        text = files.read_text(self.flags)
        if text.startswith(_FORMAT):
            number = text.splitlines()[0].removeprefix(_FORMAT)
            if number != "1":
                raise ValueError(
                    f"{self.flags}: this version of adt_tf reads format 1 "
                    f"only. Received: format {number:.80}; use the version "
                    "that wrote the file."
                )
        for line in text.splitlines():
            if line.strip() and not line.startswith(("#", "//", "--")):
                raise ValueError(
                    f"{self.flags}: every line must be a flag, as in "
                    f"--epochs=30. Received: {line[:80]!r}"
                )
        return text

    def _refuse_links(self) -> None:
        """Refuses symbolic links that lead out of the directory."""
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
                    f"{path} is a symbolic link: a run would write or delete "
                    "files outside its workdir, so nothing was changed. Remove "
                    "the link, or choose another --workdir."
                )


def _epochs(flags: set[str]) -> int | None:
    """Returns the number of epochs if --epochs is the only flag, else None."""
    match = re.fullmatch(r"--epochs=(\d+)", " ".join(flags))
    return int(match[1]) if match else None


def _compared(flags: str) -> set[str]:
    """Returns the flags that affect the results, with defaults filled in.

    The defaults allow a run of an earlier version, which has fewer flags, to
    be resumed.
    """
    lines = {}
    earlier = Config(**OF_EARLIER_RUNS).to_flags()
    for line in [*earlier.splitlines(), *flags.splitlines()]:
        name, equals, _ = line.lstrip("-").partition("=")
        name = name if equals else name.removeprefix("no")
        if line.startswith("--") and name not in _MAY_DIFFER:
            lines[name] = line
    return set(lines.values())
