"""Disks that are nearly full."""

import shutil


def fill(disk, free):
    """Fills a file system but for so many bytes; returns the file to remove."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    ballast.write_bytes(bytes(shutil.disk_usage(disk).free - free))
    return ballast
