"""A coder at one bug: reads, tries, breaks a test, goes back and tries otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from memoryhub.demo.grammar import Bank, Grammar
from memoryhub.demo.messages import (
    Exchange,
    build_assistant,
    build_system,
    build_tool_use,
    build_user,
)

RULES = (
    "You repair a small program for a library. Run the tests after every edit. "
    "Change one thing at a time and say why."
)

#: Names of the threads, one a bug.
NAMES = (
    "fix-loan-counter",
    "fix-reminder-job",
    "fix-shelf-index",
    "fix-fine-calculator",
    "fix-barcode-parser",
    "fix-waiting-list",
)

#: Suffixes of the threads of further tries; the last try passes.
FORKS = ("second-try", "third-try", "fourth-try")

BANK: Bank = {
    "task": [
        "The {part} {symptom}. Please find out why and repair it.",
        "Since yesterday the {part} {symptom}.",
        "A reader says that the {part} {symptom}. Can you reproduce it?",
        "Before the release: the {part} {symptom}.",
    ],
    "part": [
        "loan counter",
        "reminder job",
        "shelf index",
        "fine calculator",
        "barcode parser",
        "holiday calendar",
        "export of titles",
        "waiting list",
    ],
    "symptom": [
        "counts the last day twice",
        "forgets titles with an umlaut",
        "stops at the first empty line",
        "sends two letters instead of one",
        "is an hour off since the clocks changed",
        "takes a minute for ten thousand rows",
        "accepts a negative number",
    ],
    "urge": [
        "Try it, and run the tests.",
        "And, what do you make of the log?",
        "Please go on. Which line of the log tells most?",
        "Readers are waiting. What is it, do you think?",
    ],
    "idea": [
        "I think {cause}; let me look.",
        "My guess is that {cause}.",
        "Either {cause}, or the test is wrong. Reading first.",
        "It smells as if {cause}.",
    ],
    "cause": [
        "the loop runs one step too far",
        "two time zones are compared",
        "the file is read with the wrong encoding",
        "the lock is taken after the check",
        "the cache outlives its entry",
        "an empty list is taken for none",
        "the index is built anew for each row",
    ],
    "edit": [
        "I {change}.",
        "One change: I {change}. Now the tests.",
        "The smallest repair I see: I {change}.",
    ],
    "change": [
        "compare dates instead of times",
        "open the file as UTF-8",
        "take the lock before the check",
        "build the index once",
        "return early for an empty list",
        "drop the cache when the shelf moves",
        "count from one and stop before the end",
    ],
    "failed": [
        "Worse: {number} tests fail now. I go back and try it differently.",
        "That was not it. The same test fails, and {number} more with it.",
        "Interesting, {number} failures, all about {part}. Undo.",
    ],
    "passed": [
        "All {number} tests pass. I added one for the case you saw.",
        "Green, {number} of {number}. The cause was that {cause}.",
        "It holds. {number} tests, and the program is shorter by two lines.",
    ],
    "line": [
        "def due(loan, calendar):",
        "    days = calendar.open_days(loan.since, loan.until)",
        "    return max(days - loan.free_days, 0)",
        "for row in reader:",
        "    if not row.title:",
        "        break",
        "    index.add(row.title, row.shelf)",
        "with lock:",
        "    waiting.append(reader)",
        "    notify(reader, letter)",
        "return sorted(titles, key=fold)",
    ],
    "file": ["loans.py", "shelves.py", "letters.py", "calendar.py", "titles.py"],
}


#: A budget that the log nearly fills, so that later messages evict the log.
CONFIG = {"budget_tokens": 4_500, "reserved_tokens": 2_000}
LOG_LINES = 100


def build_log(chance: Random) -> Exchange:
    """Build the reading of a long log; later the model has to fetch the log again."""
    grammar = Grammar(bank=BANK, chance=chance)
    lines = [
        f"{n:05d} {grammar.say('file')}: the {grammar.say('part')} "
        f"{grammar.say('symptom')}"
        for n in range(LOG_LINES)
    ]
    return build_tool_use(chance, "read_log", {"lines": LOG_LINES}, "\n".join(lines))


def build_task(chance: Random) -> Exchange:
    """Build the rules and the bug report."""
    grammar = Grammar(bank=BANK, chance=chance)
    return [build_system(RULES), build_user(grammar.say("task"))]


def iter_attempts(chance: Random) -> Iterator[tuple[Exchange, bool]]:
    """Yield attempts (reading, an edit, its tests) and whether the tests passed.

    The last attempt passes."""
    failures = chance.randint(1, len(FORKS))
    for attempt in range(failures + 1):
        passed = attempt == failures
        grammar = Grammar(bank=BANK, chance=chance)
        yield _build_attempt(grammar, chance, passed=passed), passed


def _build_attempt(grammar: Grammar, chance: Random, *, passed: bool) -> Exchange:
    file, number = grammar.pick("file"), chance.randrange(30, 90)
    first = chance.randrange(10, 300)
    text = "\n".join(
        f"{first + n:4d}  {grammar.say('line')}" for n in range(chance.randrange(6, 24))
    )
    change = grammar.say("change")
    edit = {"file": file, "line": first + 3, "why": change}
    failed = 0 if passed else chance.randrange(1, 6)
    report = {"passed": number - failed, "failed": failed, "took_ms": number * 7}
    verdict = grammar.say("passed" if passed else "failed", number=failed or number)
    return [
        build_user(grammar.say("urge")),
        build_assistant(grammar.say("idea")),
        *build_tool_use(chance, "read_file", {"file": file}, text),
        build_assistant(grammar.say("edit", change=change)),
        *build_tool_use(chance, "edit_file", edit, {"ok": True}),
        *build_tool_use(chance, "run_tests", {"only": file}, report),
        build_assistant(verdict),
    ]
