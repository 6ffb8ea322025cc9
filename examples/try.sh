#!/bin/sh
# The main job: the Python suites of this checkout, confined. It needs a python3 with pytest; where
# there is none, a virtual environment with pytest is made in .try, or the distribution's package installed.
set -u
cd "$(dirname "$0")/.." || exit 1

has_pytest() { "$1" -c 'import pytest' >/dev/null 2>&1; }
say() { echo "make try: $*" >&2; }

find_python() {
	if has_pytest python3; then
		python=python3
		return 0
	fi
	python=.try/bin/python
	has_pytest $python && return 0
	rm -rf .try
	say "python3 has no pytest: making a virtual environment with it in .try"
	if python3 -m venv .try && .try/bin/python -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 pytest; then
		return 0
	fi
	rm -rf .try
	python=/usr/bin/python3
	has_pytest $python && say "that failed; $python has pytest" && return 0
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say "that failed: installing the package python3-pytest"
		apt-get install -y -q python3-pytest >&2 && has_pytest $python && return 0
	fi
	return 1
}

if ! command -v python3 >/dev/null; then
	say "there is no python3; on Debian and Ubuntu: apt-get install python3-pytest"
	exit 1
fi
if ! find_python; then
	say "there is no pytest, and it could not be had (above is why). Install it, and try again:"
	say "  Debian, Ubuntu: apt-get install python3-pytest    Fedora: dnf install python3-pytest"
	exit 1
fi
say "bin/confine --profile testing -- $python -m pytest $*"
exec bin/confine --profile testing -- "$python" -m pytest "$@"
