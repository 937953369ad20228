"""A coder at one bug: reads, tries, breaks a test, goes back and tries otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from memoryhub.management.demo.grammar import Bank, Grammar
from memoryhub.management.demo.messages import (
    Exchange,
    assistant,
    system,
    used,
    user,
)

RULES = (
    "You repair a small program for a library. Run the tests after every edit. "
    "Change one thing at a time and say why."
)

#: What a bug's thread is called.
NAMES = (
    "fix-loan-counter",
    "fix-reminder-job",
    "fix-shelf-index",
    "fix-fine-calculator",
    "fix-barcode-parser",
    "fix-waiting-list",
)

#: What a bug's further tries are called, behind its own name; the last one passes.
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


#: A log takes nearly all of this context: what is said after it pushes it out.
CONFIG = {"budget_tokens": 4_500, "reserved_tokens": 2_000}
LOG_LINES = 100


def log(chance: Random) -> Exchange:
    """A long log is read once; after that the model has to ask for it."""
    grammar = Grammar(bank=BANK, chance=chance)
    lines = [
        f"{n:05d} {grammar.say('file')}: the {grammar.say('part')} "
        f"{grammar.say('symptom')}"
        for n in range(LOG_LINES)
    ]
    return used(chance, "read_log", {"lines": LOG_LINES}, "\n".join(lines))


def task(chance: Random) -> Exchange:
    """The rules and the bug."""
    grammar = Grammar(bank=BANK, chance=chance)
    return [system(RULES), user(grammar.say("task"))]


def attempts(chance: Random) -> Iterator[tuple[Exchange, bool]]:
    """Reading, an edit and its tests; whether they passed. The last one does."""
    failures = chance.randint(1, len(FORKS))
    for attempt in range(failures + 1):
        passed = attempt == failures
        grammar = Grammar(bank=BANK, chance=chance)
        yield _attempt(grammar, chance, passed=passed), passed


def _attempt(grammar: Grammar, chance: Random, *, passed: bool) -> Exchange:
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
        user(grammar.say("urge")),
        assistant(grammar.say("idea")),
        *used(chance, "read_file", {"file": file}, text),
        assistant(grammar.say("edit", change=change)),
        *used(chance, "edit_file", edit, {"ok": True}),
        *used(chance, "run_tests", {"only": file}, report),
        assistant(verdict),
    ]
