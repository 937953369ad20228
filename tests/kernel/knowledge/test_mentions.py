"""Values found in the lines of a text."""

from __future__ import annotations

import pytest

from memoryhub.kernel.knowledge.mentions import TextLines, split_line

TEXT = "Ann is vegetarian.\nHome: 12 rue de l'Église, Lyon\n\nMoved to New York; 東京都"


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("Vegetarian", [1]),
        ("new  york", [4]),
        ("12 Rue de l'Eglise", [2]),
        ("東京都", [4]),
        ("York New", []),
        ("vegetaria", []),
        # Too short to tell anything, or without a word.
        ("to", []),
        ("?!", []),
    ],
)
def test_value_is_found_by_its_words(value: str, lines: list[int]) -> None:
    assert TextLines(TEXT).find_value(value) == lines


def test_value_inside_a_longer_one_is_not_said() -> None:
    lines = TextLines("Drinks green tea.\nDrinks tea, no longer green tea\nTea")
    assert lines.find_values(["tea", "Green Tea", "TEA"]) == [[2, 3], [1, 2], [2, 3]]


def test_line_names_a_property_by_a_word_of_its_name() -> None:
    lines = TextLines("Lives in Porto.\nIn Porto for work, on homecoming day")
    assert lines.has_word(1, "live_in")
    assert not lines.has_word(2, "live_in")
    assert not lines.has_word(2, "home city")
    assert lines.has_word(2, "works at")


@pytest.mark.parametrize(
    ("line", "value", "pieces"),
    [
        ("In oslo, near Oslo S.", "Oslo", ["In ", "oslo", ", near ", "Oslo", " S."]),
        ("Moved to New   York.", "new york", ["Moved to ", "New   York", "."]),
        ("Pays 5$ (a+b)", "(a+b)", ["Pays 5$ ", "(a+b)", ""]),
        ("Reads Oslovian", "Oslo", ["Reads Oslovian"]),
        ("rue de l'Église", "l'Eglise", ["rue de l'Église"]),
    ],
)
def test_line_is_split_at_the_whole_value(
    line: str, value: str, pieces: list[str]
) -> None:
    assert split_line(line, value) == pieces


def test_lines_that_name_a_property_have_all_words_of_its_name() -> None:
    lines = TextLines("Home: Oslo\nHome airports: OSL\nBirthdays\nMy birthday is soon")
    assert lines.find_naming("home_airport") == [2]
    assert lines.find_naming("birthday") == [3, 4]
    assert lines.find_naming("birthdays") == [3, 4]
    assert lines.find_naming("is") == []
