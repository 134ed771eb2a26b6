"""A pytest plugin: the minutes that each suite (folder under tests/) took, in a table."""

from __future__ import annotations

from collections import defaultdict

import pytest

_seconds: defaultdict[str, float] = defaultdict(float)
_counts: defaultdict[str, int] = defaultdict(int)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    parts = report.nodeid.split("::")[0].split("/")
    suite = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
    _seconds[suite] += report.duration
    _counts[suite] += report.when == "call"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("minutes by suite")
    for suite, seconds in sorted(_seconds.items()):
        terminalreporter.write_line(f"{suite:<24} {_counts[suite]:>5} tests {seconds / 60:>7.2f} min")
