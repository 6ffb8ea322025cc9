"""Reports of tests that come out of a sandbox: rebuilt from what is known of the test here, and what is checked of theirs.

A hostile test can say that it passed. It can't speak for another one, leave its own out, or hand pytest what that would stumble over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ._sandbox import Broken

__all__ = ["DENIED", "OUTPUT", "PROPERTIES", "complete", "failed", "passed_teardown", "rebuilt", "rerun", "twice", "visible"]

_PHASES = ("setup", "call", "teardown")
#: Properties that say how a test ended in the eyes of confine.
PROPERTIES = ("confine_status", "confine_reason", "confine_denied")
DENIED, OUTPUT = "Denied by confine", "Captured output of the sandbox"
# "rerun" is pytest-rerunfailures's.
_OUTCOMES = ("passed", "failed", "skipped", "rerun")
_STYLES = ("long", "short", "line", "no", "native", "value", "auto")
# Entries of a traceback, links of a chain, sections, properties.
_MANY = 10_000
# Of numbers.
_GREATEST = 2**53


def rebuilt(item: pytest.Item, data: Any) -> pytest.TestReport:
    """The report that data, made by pytest_report_to_serializable inside, says of item; Broken if it doesn't."""
    _need(isinstance(data, dict))
    _need(data.get("when") in _PHASES and data.get("outcome") in _OUTCOMES)
    kwargs = _about(item)
    kwargs |= {
        "when": data["when"],
        "outcome": data["outcome"],
        "longrepr": _longrepr(data.get("longrepr")),
        # pytest writes names into junit.xml as they are, and onto the terminal. Ours are not for a test to say.
        "sections": [
            (visible(_text(name)), _text(content)) for name, content in _pairs(data.get("sections")) if name not in (DENIED, OUTPUT)
        ],
        "user_properties": [
            (visible(_text(name)), _scalar(value)) for name, value in _pairs(data.get("user_properties")) if name not in PROPERTIES
        ],
    }
    for key in ("duration", "start", "stop"):
        kwargs[key] = _number(data.get(key, 0))
    if "wasxfail" in data:
        kwargs["wasxfail"] = _words(data["wasxfail"])
    # What pytest counts on.
    longrepr = kwargs["longrepr"]
    _need(data["outcome"] != "failed" or longrepr is not None)
    _need(data["outcome"] != "skipped" or "wasxfail" in kwargs or isinstance(longrepr, tuple))
    if data.get("_report_type") == "SubTestReport":
        context = data.get("_subtest.context")
        _need(isinstance(context, dict) and isinstance(context.get("kwargs"), dict))
        kwargs["_report_type"] = "SubTestReport"
        kwargs["_subtest.context"] = {
            "msg": _text_or_none(context.get("msg")),
            "kwargs": {_text(name): _scalar(value) for name, value in context["kwargs"].items()},
        }
    return _built(item, kwargs)


def failed(item: pytest.Item, when: str, message: str, text: str, duration: float) -> pytest.TestReport:
    """A report of ours: item failed for what happened to its sandbox."""
    path, line, _ = item.location
    crash = {"path": path, "lineno": (line or 0) + 1, "message": message}
    traceback = {
        "reprentries": [{"type": "ReprEntryNative", "data": {"lines": [line + "\n" for line in text.splitlines()]}}],
        "extraline": None,
        "style": "native",
    }
    kwargs = _about(item)
    kwargs |= {
        "when": when,
        "outcome": "failed",
        "longrepr": {"reprcrash": crash, "reprtraceback": traceback, "sections": [], "chain": None},
        "duration": duration,
    }
    return _built(item, kwargs)


def passed_teardown(item: pytest.Item) -> pytest.TestReport:
    """The end of a test that has no teardown any more: what writes a line for each test does so at this."""
    return _built(item, _about(item) | {"when": "teardown", "outcome": "passed", "longrepr": None})


def rerun(report: pytest.TestReport) -> bool:
    """Whether pytest-rerunfailures has the test run again after this report."""
    outcome: str = report.outcome
    return outcome == "rerun"


def complete(reports: Iterable[pytest.TestReport]) -> bool:
    """Whether reports tell of a whole test: set up, called if that went well, and torn down."""
    final = {report.when: report.outcome for report in reports if not rerun(report) and not hasattr(report, "context")}
    return "teardown" in final and "setup" in final and (final["setup"] != "passed" or "call" in final)


def twice(reports: Iterable[pytest.TestReport], report: pytest.TestReport) -> bool:
    """Whether report would be counted beside one of reports: a test has one outcome, those of reruns and subtests aside."""

    def counts(each: pytest.TestReport) -> bool:
        return not rerun(each) and not hasattr(each, "context") and (each.when == "call" or each.outcome != "passed")

    return counts(report) and any(counts(each) and each.when == report.when for each in reports)


def visible(text: str, kept: str = "") -> str:
    """Text as a terminal may have it: what is not printed is named, but for the characters of kept."""
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def _about(item: pytest.Item) -> dict[str, Any]:
    return {
        "$report_type": "TestReport",
        "nodeid": item.nodeid,
        "location": item.location,
        "keywords": dict.fromkeys(item.keywords, 1),
        "sections": [],
        "user_properties": [],
    }


def _built(item: pytest.Item, kwargs: dict[str, Any]) -> pytest.TestReport:
    report = item.config.hook.pytest_report_from_serializable(config=item.config, data=kwargs)
    if not isinstance(report, pytest.TestReport):
        raise Broken("no report")
    return report


def _need(holds: bool) -> None:
    if not holds:
        raise Broken("no report")


def _text(value: Any) -> str:
    _need(isinstance(value, str))
    # Of the half of a pair that JSON can name, nobody's terminal or file can be written.
    return str(value).encode("utf-8", "backslashreplace").decode()


def _words(value: Any) -> str:
    """What pytest puts in its summary, and as it is into junit.xml."""
    return visible(_text(value), "\n\t")


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _number(value: Any) -> float:
    # Of a greater one, which JSON can name, there may be no float, and no time. No number is less than NaN.
    _need(isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _GREATEST)
    return value  # type: ignore[no-any-return] # looked at above


def _line(value: Any) -> int | None:
    _need(value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _GREATEST))
    return value  # type: ignore[no-any-return] # looked at above


def _scalar(value: Any) -> Any:
    return _text(value) if isinstance(value, str) else value if value is None or isinstance(value, bool) else _number(value)


def _items(value: Any) -> list[Any]:
    _need(value is None or (isinstance(value, list) and len(value) <= _MANY))
    return value or []


def _pairs(value: Any) -> list[Any]:
    pairs = _items(value)
    _need(all(isinstance(pair, list) and len(pair) == 2 for pair in pairs))
    return pairs


def _texts(value: Any) -> list[str]:
    return [_text(line) for line in _items(value)]


def _longrepr(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value and _words(value)
    if isinstance(value, list):  # of a skip
        _need(len(value) == 3)
        return _words(value[0]), _line(value[1]), _words(value[2])
    _need(isinstance(value, dict))
    sections = _items(value.get("sections"))
    _need(all(isinstance(section, list) and len(section) == 3 for section in sections))
    chain = None
    if value.get("chain"):
        links = _items(value["chain"])
        _need(all(isinstance(link, list) and len(link) == 3 for link in links))
        chain = [(_traceback(traceback), _crash(crash), _text_or_none(text)) for traceback, crash, text in links]
    return {
        "reprcrash": _crash(value.get("reprcrash")),
        "reprtraceback": _traceback(value.get("reprtraceback")),
        # A section ends with a line of a character.
        "sections": [(visible(_text(name)), _text(content), visible(_text(sep))[:1] or "-") for name, content, sep in sections],
        "chain": chain,
    }


def _crash(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    _need(isinstance(value, dict))
    return {"path": _words(value.get("path")), "lineno": _line(value.get("lineno")), "message": _words(value.get("message"))}


def _traceback(value: Any) -> dict[str, Any]:
    _need(isinstance(value, dict) and value.get("style") in _STYLES)
    return {
        "reprentries": [_entry(entry) for entry in _items(value.get("reprentries"))],
        "extraline": _text_or_none(value.get("extraline")),
        "style": value["style"],
    }


def _entry(value: Any) -> dict[str, Any]:
    _need(isinstance(value, dict) and isinstance(value.get("data"), dict))
    data = value["data"]
    if value.get("type") == "ReprEntryNative":
        return {"type": "ReprEntryNative", "data": {"lines": _texts(data.get("lines"))}}
    _need(value.get("type") == "ReprEntry" and data.get("style") in _STYLES)
    arguments, local = data.get("reprfuncargs"), data.get("reprlocals")
    _need(data["style"] != "short" or data.get("reprfileloc") is not None)  # some versions have it that there is one
    _need(all(part is None or isinstance(part, dict) for part in (arguments, local)))
    return {
        "type": "ReprEntry",
        "data": {
            "lines": _texts(data.get("lines")),
            "reprfuncargs": arguments and {"args": [(_text(name), _text(text)) for name, text in _pairs(arguments.get("args"))]},
            "reprfileloc": _crash(data.get("reprfileloc")),
            "reprlocals": local and {"lines": _texts(local.get("lines"))},
            "style": data["style"],
        },
    }
