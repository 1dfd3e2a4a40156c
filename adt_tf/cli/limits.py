"""Checks the resource limits of the process before TensorFlow is imported.

check_limits()

If memory or threads run out during the import, TensorFlow ends the process, or
hangs, without a message.
"""

from __future__ import annotations

import os
import threading

try:
    import resource
except ImportError:  # Systems other than Unix have no such limits.
    resource = None  # type: ignore[assignment]

# Training a small network takes 2.9 GB of address space and 0.7 GB of data.
_LEAST = {
    "RLIMIT_AS": (3 << 30, "-v", "address space"),
    "RLIMIT_DATA": (1 << 30, "-d", "data segment"),
}


def check_limits() -> None:
    """Raises `ValueError` if a limit is too low for TensorFlow to start."""
    for name, (least, option, words) in _LEAST.items():
        limit = _soft_limit(name)
        if limit is not None and limit < least:
            raise ValueError(
                f"The {words} of this process is limited to "
                f"{limit / 1e9:.2g} GB (ulimit {option} {limit // 1024}), and "
                f"TensorFlow needs at least {least / 1e9:.2g} GB. Raise the "
                f"limit: ulimit {option} unlimited"
            )
    needed = 16 + 4 * (os.cpu_count() or 1)
    started = _count_threads(needed)
    if started < needed:
        raise ValueError(
            f"Only {started} more threads can be started, and TensorFlow needs "
            f"{needed}. Raise the limit on processes (ulimit -u, or the limit "
            "of the container), or end other processes."
        )


def _soft_limit(name: str) -> int | None:
    """Returns the limit in bytes, or None if there is no limit."""
    if resource is None or not hasattr(resource, name):
        return None
    limit, _ = resource.getrlimit(getattr(resource, name))
    return None if limit == resource.RLIM_INFINITY else limit


def _count_threads(wanted: int) -> int:
    """Returns how many threads can run at the same time, up to `wanted`."""
    end = threading.Event()
    threads = []
    try:
        for _ in range(wanted):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError:  # The message is "can't start new thread".
        pass
    finally:
        end.set()
        for thread in threads:
            thread.join()
    return len(threads)
