"""Builds wheels of this checkout, by the standard library and Go alone.

It is the build backend of both pyproject.toml files (PEP 517, PEP 660), so that "pip install ./python" and "pip install ." need nothing
else, and a program:

    python3 python/buildsystem/confine_build.py DIRECTORY [GOOS/GOARCH…]

A wheel has the package, and the programs for one platform as its scripts. The same checkout, Go and zlib make
the same bytes: no time, no path and no commit is in it. The modules that Go needs come from its cache, or from where it gets them.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import unasync

PYTHON = Path(__file__).resolve().parents[1]
ROOT = PYTHON.parent
SOURCE = PYTHON / "src"
MODULE = "github.com/confine-run/confine"
PROGRAMS = {
    "confine": ".",
    "confine-server": "./cmd/confine-server",
    "confine-vm": "./cmd/confine-vm",
    "confine-wasm": "./cmd/confine-wasm",
}

# What is static runs with every C library; Go needs macOS 12.
TAGS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
    "windows/amd64": "win_amd64",
}

# Group, name, module; those whose module is there.
ENTRY_POINTS = [
    ("pytest11", "confine", "confine.pytest_plugin"),
    ("inspect_ai", "confine", "confine.providers.inspect_ai"),
]

METADATA = """\
Metadata-Version: 2.1
Name: confine
Version: {version}
Summary: Runs any program under a policy, and says honestly what was enforced: client, runners and pytest plugin, with the program
License: Apache-2.0
Requires-Python: >=3.10
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{description}"""

# Of no use to a build, or made by it.
NOT_SOURCE = {"_sync", ".git", ".try", "bin", "dist", "cover", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".venv"}
# The oldest time that a zip can say.
EPOCH = (1980, 1, 1, 0, 0, 0)

Settings = "Mapping[str, Any] | None"


class BuildError(Exception):
    """A build that can't be, in words for whoever asked for it."""


def version() -> str:
    """The version of the package, which its programs get, too."""
    found = re.search(r'^VERSION = "([^"]+)"$', (SOURCE / "confine" / "_version.py").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError("_version.py has no VERSION")
    return found.group(1)


def host() -> str:
    """The platform of this machine, as Go calls it."""
    system = {"Linux": "linux", "Darwin": "darwin", "Windows": "windows"}.get(platform.system(), platform.system().lower())
    machine = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower(), "")
    return f"{system}/{machine}"


def wheel(directory: Path, target: str, *, editable: bool = False) -> str:
    """Build the wheel for a platform; its name."""
    if target not in TAGS:
        raise BuildError(f"there are no wheels for {target}: {', '.join(TAGS)}")
    v = version()
    name = f"confine-{v}-py3-none-{TAGS[target]}.whl"
    info = f"confine-{v}.dist-info"
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        files: list[tuple[str, bytes, int]] = []
        if editable:
            unasync.write()
            files.append(("confine.pth", f"{SOURCE}\n".encode(), 0o644))
        else:
            files += [(name, data, 0o644) for name, data in sorted(package())]
        for path in programs(Path(temporary), target):
            files.append((f"confine-{v}.data/scripts/{path.name}", path.read_bytes(), 0o755))
        files += [(f"{info}/{n}", data.encode(), 0o644) for n, data in information(target)]
        record = "".join(f"{n},sha256={digest(data)},{len(data)}\n" for n, data, _ in files) + f"{info}/RECORD,,\n"
        files.append((f"{info}/RECORD", record.encode(), 0o644))
        unfinished = Path(temporary) / name
        with zipfile.ZipFile(unfinished, "w") as z:
            for n, data, mode in files:
                entry = zipfile.ZipInfo(n, EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3  # Unix, whoever builds
                entry.external_attr = (0o100000 | mode) << 16
                z.writestr(entry, data, compresslevel=6)
        shutil.move(unfinished, directory / name)
    return name


def package() -> Iterator[tuple[str, bytes]]:
    """The files of the package."""
    for path in SOURCE.rglob("*"):
        if path.is_file() and not NOT_SOURCE & set(path.parts[len(SOURCE.parts) :]) and path.suffix not in (".pyc", ".pyo"):
            yield path.relative_to(SOURCE).as_posix(), path.read_bytes()
    for name, text in unasync.made().items():
        yield f"confine/_sync/{name}", text.encode()


def information(target: str) -> list[tuple[str, str]]:
    """The files of .dist-info, but for RECORD."""
    tags = [f"Tag: py3-none-{tag}\n" for tag in TAGS[target].split(".")]
    files = [
        ("METADATA", metadata()),
        ("WHEEL", "Wheel-Version: 1.0\nGenerator: confine_build\nRoot-Is-Purelib: false\n" + "".join(tags)),
        ("LICENSE", (ROOT / "LICENSE").read_text()),
    ]
    points = ""
    for group, name, module in ENTRY_POINTS:
        path = SOURCE / module.replace(".", "/")
        if path.is_dir() or path.with_suffix(".py").is_file():
            points += f"[{group}]\n{name} = {module}\n"
    if points:
        files.append(("entry_points.txt", points))
    return files


def metadata() -> str:
    """What the package says of itself; its manual is the long description."""
    return METADATA.format(version=version(), description=(ROOT / "docs" / "PYTHON.md").read_text())


def digest(data: bytes) -> str:
    """SHA-256, as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def programs(directory: Path, target: str) -> Iterator[Path]:
    """Build the programs."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise BuildError("building confine needs Go 1.26 or later in PATH: https://go.dev/dl; or install a wheel")
    system, machine = target.split("/")
    env = {**os.environ, "CGO_ENABLED": "0", "GOOS": system, "GOARCH": machine, "GOFLAGS": "-trimpath -buildvcs=false", "GOWORK": "off"}
    env |= {"GOAMD64": "v1", "GOARM64": "v8.0"}
    for name, where in PROGRAMS.items():
        path = directory / (name + (".exe" if system == "windows" else ""))
        flags = f"-s -w -X {MODULE}/internal/cli.Version={version()}"
        if name == "confine" and system == "linux":
            flags += " -E main.entry"  # entry_linux_*.s says what for
        built = subprocess.run([go, "build", "-ldflags", flags, "-o", str(path), where], cwd=ROOT, env=env, check=False)
        if built.returncode != 0:
            raise BuildError(f"go build {where} failed for {target}")
        yield path


def sdist(directory: Path) -> str:
    """Pack the checkout; the file's name."""
    name = f"confine-{version()}"
    directory.mkdir(parents=True, exist_ok=True)

    def anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if NOT_SOURCE & set(info.name.split("/")):
            return None
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 0
        return info

    with tarfile.open(directory / f"{name}.tar.gz", "w:gz") as tar, tempfile.NamedTemporaryFile("w", suffix="PKG-INFO") as about:
        for path in sorted(ROOT.iterdir()):
            tar.add(path, f"{name}/{path.name}", filter=anonymous)
        about.write(metadata())
        about.flush()
        tar.add(about.name, f"{name}/PKG-INFO", filter=anonymous)
    return f"{name}.tar.gz"


# The backend's interface.


def _target() -> str:
    return os.environ["GOOS"] + "/" + os.environ["GOARCH"] if "GOOS" in os.environ and "GOARCH" in os.environ else host()


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """PEP 517."""
    return wheel(Path(wheel_directory), _target())


def build_editable(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """PEP 660: the package stays in the checkout."""
    return wheel(Path(wheel_directory), _target(), editable=True)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """PEP 517."""
    return sdist(Path(sdist_directory))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """PEP 517."""
    info = Path(metadata_directory) / f"confine-{version()}.dist-info"
    info.mkdir()
    for name, data in information(_target()):
        (info / name).write_text(data)
    return info.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def main(argv: list[str]) -> int:
    """Build wheels for the platforms that are named, or all."""
    if not argv or argv[0].startswith("-"):
        print(__doc__)
        return 2
    try:
        for target in argv[1:] or TAGS:
            print(Path(argv[0]) / wheel(Path(argv[0]), target), flush=True)
    except BuildError as e:
        print(f"confine_build: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
