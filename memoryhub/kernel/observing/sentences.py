"""Sentences of a message, weighed by how long they will matter. Pure.

A rule or a wish is asked for weeks later, a greeting never. Words tell them apart in
the languages listed here; in other languages names, numbers and length do.
See decision 67.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.observing.codes import GAP, has_code, shorten_around_codes

#: Worth of a sentence by its content: a rule, a lasting wish or decision, a detail with
#: names or numbers, anything else, a short one, or only politeness.
RULE: Final = 5
WISH: Final = 4
DETAIL: Final = 3
PLAIN: Final = 2
SHORT: Final = 1
POLITE: Final = 0
#: Least worth of a sentence that outlasts all other lines.
LASTING: Final = WISH

#: Most characters of a message that are read, and most wrappers in it.
_MOST_READ: Final = 24_000
_MOST_WRAPPERS: Final = 64


def _read_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])|\s*\n\s*")
#: Tags with a hyphen or an underscore are a machine's; a person's words in other tags
#: are kept.
_WRAPPER = re.compile(r"<((?!user)[a-z]+(?:[-_][a-z]+)+)>")
_FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
_QUOTE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)]|#{1,6})[ \t]+", re.MULTILINE)
_SPEAKER = re.compile(r"^(user|assistant|tool|system)(?: error)?: ")

#: Phrases that cheer somebody up.
_CHEERING: Final = (
    r"(?:ever )?(?:let (?:us down|(?:\w+ ){1,7}(?:stop|hold|bring|get) (?:you|us|in)"
    r"\b)|"
    r"forget(?:,| how| (?:that )?(?:you|they)\b| to (?:enjoy|have|take care))|give up|"
    r"lose (?:\w+ )?(?:hope|sight|faith|heart)|quit(?:$|[.,] *$| on)|worry|hesitate|"
    r"stop (?:\w+ing|now)\b|doubt|sweat|"
    r"be (?:scared|afraid|shy|discouraged|(?:so|too) hard))"
)
#: Lasting orders: at the beginning of a sentence, or inside.
_ORDER = re.compile(
    r"^(?:(?:please|and|but|so|also|then|remember|note)[,:]? )*"
    rf"(?:never (?!{_CHEERING}|mind|been|seen|had|heard|thought|tried)|"
    rf"always (?!{_CHEERING}|happy|calm|good|nice|been|there|here|love|fun|"
    r"(?:a|the) \w+[.!]?$)|"
    rf"(?:do not|don['’]t) (?!{_CHEERING}|mind|get |you |know|think|"
    r"see (?:it|how|why|any)|have (?:to|much|any))|avoid|make sure|"
    r"be sure|remember (?:to|that (?:i|we|my|our))\b|from now on|"
    r"at all times|whenever (?!i |you (?:need|want|feel|like|can|have|are))|every time|"
    r"only|stop|no more|call me|"
    r"nie|niemals|immer|ab jetzt|auf keinen fall|bitte (?:nie|immer|kein)|jamais|"
    r"toujours|désormais|ne |n['’]|nunca|siempre|no (?:me|lo|la|les) |sempre|"
    r"nigdy|zawsze|nooit|altijd|aldrig|alltid)"
    r"|\b(?:please|and|but|so|or|,) (?:never|always|do not|don['’]t|avoid) "
    rf"(?!\w+(?:[^s]s|ed|ing)\b|{_CHEERING}|mind|get |happy|calm|good|here|there)"
    r"|\b(?:you|it|they|we|one|everyone|nobody|no one|(?:all|every) \w+|\w+s) "
    r"(?:must (?!be\b(?! (?:in|at|under|\w+ed by)\b)|feel|have\b|love|mean)|may not|"
    r"should (?:never|always)|have to|are not allowed)"
    r"|\b(?:must (?:not|never|always)|from now on|under no circumstances|at no time|"
    r"without (?:asking|my)|is forbidden|as a rule|du (?:musst|darfst|sollst)|il faut|"
    r"tu dois|debes|tienes que|devi|musisz|a partir de ahora)\b"
    r"|никогда|всегда|нельзя|обязательно|必ず|絶対|しないで|してはいけ|ないでください|"
    r"从不|永远|必须|不要|务必|禁止|항상|절대|반드시|하지 ?마",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:prefer\w*|favou?rite \w+(?: \w+)? (?:is|are)|(?:would|['’]d) rather|"
    r"allergic|allergy|(?:am|is|are|['’]m|['’]s|['’]re|no|only) (?:an? )?"
    r"(?:vegan|vegetarian)|(?:vegan|vegetarian) (?:only|please|meals?)|"
    r"(?:i|we)(?:['’]d| would) (?:like|love) (?!to\b)|"
    r"(?:i|we) (?:want|need) (?:all|every|no|only|our)\b|"
    r"i (?:hate|dislike|can['’]t stand)|(?<!n't )(?<!n’t )(?<!not )decided|"
    r"decision (?:is|was)|we agreed|agreed (?:on|to)|"
    r"change[ds]? \w+ mind|against the|deadline|promised|"
    r"my (?:\w+ )?(?:name|birthday|address|phone|wife|husband|doctor|boss) is|"
    r"lieber|bevorzug\w*|möchte|entschieden|wünsch\w*|préfér\w*|voudrais|décidé|"
    r"prefier\w*|quisiera|gustaría|decid[ií]\w*|wolę|chciał\w*|liever)\b"
    r"|предпочита|хочу|хотел|решил|好き|嫌い|したい|欲しい|喜欢|想要|决定|좋아|싫어|싶",
    re.IGNORECASE,
)
#: A digit, a name inside a sentence, or a request.
_DETAIL = re.compile(
    r"(?i:\b(?:please|bitte|por favor)\b)|[0-9]|(?<=[a-z,;:] )[A-Z][\w'’-]+|[A-Z]{2,}"
)
_POLITE = _read_words(
    """
    hi hello hey dear good morning afternoon evening night day there thanks thank
    you so much very a lot many ok okay k yes yeah yep no nope sure great perfect
    fine please bye goodbye cheers understood noted got it alright right well
    welcome you're awesome nice cool sounds all everyone team folks sorry hmm ah oh
    lol haha hallo guten morgen tag abend danke bitte ja nein bonjour merci oui non
    salut hola gracias buenos buenas días tardes sí vale ciao grazie cześć dzień
    dobry dziękuję tak stop
    """
)
#: Cue words. An ASCII sentence without a cue is searched no further, as most are.
_CUES = _read_words(
    """
    never always don't don’t not avoid sure remember now times whenever every only
    stop more call must may should have shall are asking my forbidden rule
    circumstances no nie niemals immer auf bitte jamais toujours ne n'est nunca
    siempre sempre nigdy zawsze nooit altijd aldrig alltid du faut dois debes tienes
    devi musisz partir prefer prefers preferred preferably preference preferences
    favourite favorite rather allergic allergy vegan vegetarian i'd i’d we'd we’d
    would want need hate dislike stand decided decision agreed mind against deadline
    promised name birthday address phone wife husband doctor boss lieber bevorzuge
    entschieden wünsche voudrais quisiera decidido liever
    """
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class Sentence(NamedTuple):
    """A sentence of a message."""

    text: str
    worth: int


def weigh_sentence(text: str) -> int:
    """Return how long a sentence will matter, `POLITE` to `RULE`. Linear."""
    words = [word.casefold() for word in _WORD.findall(text)]
    if all(word in _POLITE for word in words):
        return POLITE
    # Questions and exclamations set no rule.
    cued = not text.isascii() or not _CUES.isdisjoint(words)
    if cued and text[-1] not in "?!":
        if _ORDER.search(text):
            return RULE
        if _WISH.search(text):
            return WISH
    if _DETAIL.search(text) or has_code(text):
        return DETAIL
    return SHORT if len(words) < 4 and text.isascii() else PLAIN


def weigh_line(text: str) -> int:
    """Return the worth of a line of a log: that of its best sentence.

    Speech of an agent or a tool counts as a detail at most: neither sets rules.
    """
    speaker = _SPEAKER.match(text)
    text = text[speaker.end() :] if speaker else text
    worth = max(
        (weigh_sentence(each) for each in _split_sentences(text)), default=POLITE
    )
    own = speaker is None or speaker.group(1) in ("user", "system")
    return worth if own else min(worth, DETAIL)


def list_sentences(text: str) -> list[Sentence]:
    """List the sentences of a message, in order.

    Text in a machine's tags, fenced code and quotes are left out, unless the message
    has nothing else.
    """
    text = text[:_MOST_READ]
    own = _QUOTE.sub("", _drop_fences(_drop_wrappers(text)))
    found = (
        [*_split_sentences(own)]
        or [*_split_sentences(_drop_wrappers(text))]
        or [*_split_sentences(text)]
    )
    return [Sentence(each, weigh_sentence(each)) for each in found]


def tell_message(text: str, room: int, lasting: int, *, count: Count) -> str:
    """Return the sentences of a message that matter longest, in `room` tokens.

    Rules and wishes may take up to `lasting` tokens. The result has at least the
    beginning of a sentence.
    """
    return _choose_sentences(list_sentences(text), room, lasting, count)


def shorten_line(text: str, room: int, *, count: Count, only: int = POLITE) -> str:
    """Return a line of a log in `room` tokens, with its most important sentences.

    Sentences worth less than `only` are always dropped.
    """
    if count(text) <= room and only == POLITE:
        return text
    speaker = _SPEAKER.match(text)
    label = speaker.group() if speaker else ""
    every = [
        Sentence(each, weigh_sentence(each))
        for each in _split_sentences(text[len(label) :])
    ]
    sentences = [each for each in every if each.worth >= only]
    if not sentences or len(every) < 2:
        return shorten_around_codes(text, room, count=count)
    short = label + _choose_sentences(sentences, room - count(label), 0, count)
    return (
        short
        if count(short) <= room
        else shorten_around_codes(short, room, count=count)
    )


def _choose_sentences(
    sentences: Sequence[Sentence], room: int, lasting: int, count: Count
) -> str:
    order = sorted(range(len(sentences)), key=lambda at: -sentences[at].worth)
    taken, used = set[int](), 0
    for at in order:
        most = max(room, lasting) if sentences[at].worth >= LASTING else room
        size = count(sentences[at].text) + 1
        polite = sentences[at].worth == POLITE
        if used + size <= most and not (taken and polite):
            taken.add(at)
            used += size
    if not taken and order:
        return shorten_around_codes(sentences[order[0]].text, max(room, 1), count=count)
    found, before = list[str](), -1
    for at in sorted(taken):
        if any(each.worth > POLITE for each in sentences[before + 1 : at]):
            found.append(GAP)
        found.append(sentences[at].text)
        before = at
    if any(each.worth > POLITE for each in sentences[before + 1 :]):
        found.append(GAP)
    return " ".join(found)


def _split_sentences(text: str) -> Iterator[str]:
    for part in _END.split(_BULLET.sub("", text)):
        if part and (found := part.strip()):
            yield found


def _drop_wrappers(text: str) -> str:
    found, at = list[str](), 0
    for _ in range(_MOST_WRAPPERS):
        opened = _WRAPPER.search(text, at)
        if opened is None:
            break
        closing = f"</{opened.group(1)}>"
        end = text.find(closing, opened.end())
        found.append(text[at : opened.start()])
        at = opened.end() if end < 0 else end + len(closing)
    return "".join([*found, text[at:]])


def _drop_fences(text: str) -> str:
    """Return a text without fenced parts; an unclosed fence extends to the end."""
    found, inside, at = list[str](), False, 0
    for fence in _FENCE.finditer(text):
        if not inside:
            found.append(text[at : fence.start()])
        end = text.find("\n", fence.end())
        at, inside = len(text) if end < 0 else end, not inside
    if not inside:
        found.append(text[at:])
    return "".join(found)
