"""The exercises of lesson 10, the toy translator: reference answers and mistakes."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random
from unittest.mock import patch
from weakref import WeakKeyDictionary

import torch

from helpers.corpus import SentencePair, toy_corpus
from helpers.corpus.phenomena import phenomena
from helpers.text import split_words
from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise, Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.checking.running import NOTHING, stub
from lessons.lesson10 import other_outputs

# ------------------------------------------------------------ 10.1 count the matches

MATCHED, TOTAL = "(ours & theirs).total()", ", ours.total()"
UNCLIPPED = "sum(count for run, count in ours.items() if run in theirs)"
LAST = "len(tokens) - n + 1"
RUN = "tuple(tokens[i : i + n])"
RUNS = "def runs(tokens):"
MATCH_MISTAKES = {
    "a run counts more often than the reference has it: clip, that is count it at most "
    "as often as it occurs there": {MATCHED: UNCLIPPED},
    "each match counts as often as the reference has it: it counts at most as often as "
    "the hypothesis has it, too": [
        {MATCHED: "sum(theirs[run] for run in ours)"},
        {MATCHED: "sum(count * theirs[run] for run, count in ours.items())"},
    ],
    "a run that stands in both several times counts once: a set forgets how often": [
        {MATCHED: "len(ours & theirs)"},
        {MATCHED: "len(ours & theirs)", TOTAL: ", len(ours)"},
    ],
    "the total is that of the reference: count the runs of the hypothesis": {
        TOTAL: ", theirs.total()"
    },
    "the total counts words, not runs of n words": {TOTAL: ", len(hypothesis)"},
    "runs are compared place by place: one may match wherever it stands": {
        MATCHED: "sum(hypothesis[i : i + n] == reference[i : i + n] for i in "
        "range(min(len(hypothesis), len(reference)) - n + 1))"
    },
    "the last run is missing: there are len(tokens) - n + 1 of them": {
        LAST: "len(tokens) - n"
    },
    "shorter runs at the end count, too: there are len(tokens) - n + 1 runs": {
        LAST: "len(tokens)"
    },
    "single words are counted whatever n is": {
        "tokens[i : i + n]": "tokens[i : i + 1]",
        LAST: "len(tokens)",
    },
    "runs are sought in the joined text, where *le* stands in *elle*, too: compare "
    "whole words": {
        MATCHED: "sum(min(c, f(reference).count(f(x))) for x, c in ours.items())"
    },
    "the words of a run are joined without a space: *a bc* then equals *ab c*": {
        RUN: "''.join(tokens[i : i + n])"
    },
    "only the first letters of the words are compared": [
        {RUN: f"tuple(token[:{k}] for token in tokens[i : i + n])"}
        for k in (1, 2, 3, 4, 5)
    ],
    "the ends of words are cut off: *chats* is another word than *chat*": {
        RUN: "tuple(token.rstrip('s') for token in tokens[i : i + n])"
    },
    "accents are left out: *à* is another word than *a*": {
        RUN: "tuple(token.translate(PLAIN) for token in tokens[i : i + n])"
    },
    "punctuation marks are left out: they count as words do": [
        {RUNS: f"{RUNS}\n        tokens = [x for x in tokens if {kept}]"}
        for kept in ("x.isalpha()", "x[0].isalpha()")
    ],
    "upper and lower case are not told apart: *Le* is another word than *le*": {
        RUN: "tuple(token.lower() for token in tokens[i : i + n])"
    },
    "the order of the words in a run counts, too: *chat noir* is not *noir chat*": {
        RUN: "tuple(sorted(tokens[i : i + n]))"
    },
    "the next run begins n words later: it begins one word later": {
        f"range({LAST})": f"range(0, {LAST}, n)"
    },
    "the two counts are swapped: the matches come first, then the total": {
        f"{MATCHED}{TOTAL}": f"ours.total(), {MATCHED}"
    },
}


PLAIN = str.maketrans("àâéèêôûç", "aaeeeouc")
GIRL = "la petite fille ne voit pas l' homme et le chat ."
FIRST = "dort dort dort chat chat noir dort dort chat"  # tells all mistakes apart


def _as_pair(answer: Callable) -> Callable:
    """The answer as a function that gives two counts, an array of two included."""

    def function(hypothesis: list, reference: list, n: int) -> object:
        counts = answer(hypothesis, reference, n)
        _refuse_nothing(answer, [counts])
        if getattr(counts, "shape", None) == (2,):
            return [*counts]
        if not isinstance(counts, list | tuple) or len(counts) != 2:
            kind = type(counts).__name__
            raise Stop(wrong(f"return two counts, `matched, total`, not: {kind}"))
        _refuse_constant(answer, ([], [], 1), (["le"], ["le"], 1), (["le"] * 3, [], 1))
        return counts

    return function


def _refuse_nothing(answer: Callable, outputs: list) -> None:
    """Stop where an answer gives None: it is a stub, or lacks its `return`."""
    if any(output is None or output is ... for output in outputs):
        if stub(answer):
            raise NotImplementedError
        raise Stop(wrong(NOTHING))


def _refuse_constant(answer: Callable, *inputs: tuple) -> None:
    """Stop where an answer gives the same for inputs that differ."""
    try:
        first, *others = [answer(*some) for some in inputs]
        same = first is not None and all(bool(other == first) for other in others)
    except Exception:  # it is seen again in the trials
        return
    if same:
        raise Stop(wrong(f"the result is always the same, {first}: use the arguments"))


def _split(*texts: str) -> list[list[str]]:
    return [text.split() for text in texts]


def _texts(seed: int, ours: int, theirs: int, n: int) -> tuple[list, list, int]:
    """Two random texts of few words, so that runs of n come several times."""
    rng = Random(seed)
    words = ["le", "chat", "noir"] if n == 1 else ["le", "chat"]
    return *([rng.choice(words) for _ in range(c)] for c in (ours, theirs)), n


def _cases(*cases: tuple[str, str, int]) -> list[Trial]:
    return [Trial((*_split(a, b), n)) for a, b, n in cases]


matches = Exercise(
    f"""\
def my_matches(hypothesis, reference, n):
    {RUNS}
        return Counter({RUN} for i in range({LAST}))

    ours, theirs = runs(hypothesis), runs(reference)
    return {MATCHED}{TOTAL}
""",
    Part(
        "my_matches",
        MATCH_MISTAKES,
        lambda seed: [
            (*_split(FIRST, "noir chat dort chat dort dort chat"), 2),
            _texts(seed, 14, 9, 2),
            _texts(seed + 1, 8, 13 + seed % 4, 1),
            _texts(seed + 2, 12, 17, 3),
        ],
        ["runs of two words are counted and clipped"],
        others="so are runs of one and three words, in texts of other lengths",
        doubt="",
        trials=[
            *_cases(
                ("le chat", "elle dort", 1),
                ("a bc", "ab c", 2),
                ("chat noir", "chien noir", 1),
                ("la chatte", "la chaise", 1),
                ("Le chat", "le chat", 1),
                ("le le le", "le le le", 2),
                ("le le le chat", "le chat le le chien", 2),
                ("chat le chat le chat", "le chat noir", 1),
                ("le chat et le chat noir", "le chat voit le chat et le chien", 2),
                ("a b c", "c a b", 1),
                ("oui", "oui oui oui", 1),
                ("un deux trois quatre cinq", "un deux trois quatre cinq", 5),
                ("chat noir le", "noir chat le", 2),
                ("oui", "oui oui oui", 3),
                (GIRL, GIRL.replace("chat", "chat noir"), 2),
                ("la petit fille", "la petite fille", 2),
                ("les chats", "les chat", 1),
                ("l' or", "l or", 1),
                ("elle a faim", "elle à faim", 2),
                (GIRL, f"est-ce que {GIRL}", 4),
                ("le chat", "le", 2),
            ),
            Trial(
                (*_split("oui oui", "oui oui oui"), 3),
                ["a sentence shorter than n has no runs: 0 of 0"],
            ),
        ],
        results=("matched", "total"),
        use=_as_pair,
        describe=lambda value, due: f"{_pair(value)} are given, {_pair(due)} are due",
        aside=lambda value, answers, ours, theirs, n: (
            f". Here n = {n}: *{' '.join(ours)}* against *{' '.join(theirs)}*"
        ),
    ),
    uses={"Counter": Counter, "f": " ".join, "PLAIN": PLAIN},
)


def _pair(value: tuple[torch.Tensor, ...]) -> str:
    return " of ".join(f"{part.item():g}" for part in value)


# ------------------------------------------------------------ 10.2 the control

KIND, PLACE = "(noun < adjective) == noun_first", "min(adjective, noun)"
SHARE = "sum(hits) / len(hits)"
PAIRS = "for adjective, noun in pairs:"
HIT = f"hits.append(words[{PLACE}] in nouns)"
CONTROL_MISTAKES = {
    "`noun_first` is not used: all phrases are counted, or always one kind of them": [
        {KIND: "True"},
        {KIND: "noun < adjective"},
        {KIND: "noun > adjective"},
    ],
    "the kinds are exchanged: with `noun_first`, the noun's place is the smaller one": {
        KIND: "(noun > adjective) == noun_first"
    },
    "it looks at the noun's own place: look at the first of the two places": {
        PLACE: "noun"
    },
    "it looks at the adjective's place: look at the first of the two places": {
        PLACE: "adjective"
    },
    "it looks at the second of the two places, one too late: look at the first": {
        PLACE: "max(adjective, noun)"
    },
    "it looks one place too early": {PLACE: f"{PLACE} - 1"},
    "the share of words that are *no* nouns is given": {"] in nouns": "] not in nouns"},
    "the number of hits is given: divide by the number of phrases": {
        SHARE: "sum(hits)"
    },
    "divide by the number of phrases that were looked at": [
        {SHARE: "sum(hits) / len(said)"},
        {SHARE: "sum(hits) / sum(map(len, phrases))"},
    ],
    "each sentence's share is taken, and then their mean: put all phrases together": {
        "hits = []\n": "shares = []\n",
        PAIRS: f"hits = []\n        {PAIRS}",
        f"    return {SHARE}": f"        if hits:\n            shares.append({SHARE})\n"
        "    return sum(shares) / len(shares)",
    },
    "only the last sentence counts: the list of hits begins again with each sentence": {
        PAIRS: f"hits = []\n        {PAIRS}",
        SHARE: "sum(hits) / max(len(hits), 1)",
    },
    "only one phrase of a sentence counts: it may have several": [
        {PAIRS: PAIRS.replace("pairs", "pairs[:1]")},
        {PAIRS: PAIRS.replace("pairs", "pairs[-1:]")},
        {HIT: f"{HIT}\n                break"},
    ],
    "a noun at either of the two places counts: look at the first of them": {
        HIT: "hits.append(words[adjective] in nouns or words[noun] in nouns)"
    },
    "the share is rounded": [{SHARE: f"round({SHARE}, {k})"} for k in (2, 3)],
    "a percentage is given: a share lies between 0 and 1": {SHARE: f"100 * {SHARE}"},
}


def _said(seed: int, sentences: int) -> tuple:
    """Random words at random places: what was said, the phrases, the nouns."""
    rng = Random(seed)
    nouns, others = ["chat", "maison", "arbre"], ["noir", "mais", "chats", "dort", "."]

    def word(share: float) -> str:
        return rng.choice(nouns if rng.random() < share else others)

    said, phrases = [], []
    for i in range(sentences):
        words, found = [word(0.45) for _ in range(rng.randint(8, 14))], []
        for start in (1, 3 + rng.randint(1, 2))[: (1, 2, 0, 2)[i % 4]]:
            noun_first = rng.random() < 0.6
            found.append((start + 1, start) if noun_first else (start, start + 1))
            shares = (0.8, 0.25) if noun_first else (0.35, 0.6)
            words[start : start + 2] = map(word, shares)
        said.append(words)
        phrases.append(found)
    said, phrases = said + said[:3], phrases + phrases[:3]  # some come twice
    return said, phrases, {*nouns}


def _both_kinds(answer: Callable) -> Callable:
    """The share where the noun comes first, and where the adjective does."""

    def function(said: list, phrases: list, nouns: set) -> list:
        shares = [answer(said, phrases, nouns, kind) for kind in (True, False)]
        _refuse_nothing(answer, shares)
        found = [plain(share) for share in shares]
        if not all(isinstance(x, torch.Tensor) and x.numel() == 1 for x in found):
            kind = type(shares[0]).__name__
            raise Stop(wrong(f"return one number, the share, not a {kind}"))
        words, pairs = ["chat", "noir", "lit"], [(1, 0), (1, 2)]
        some = {"chat"}, {"noir"}, {"lit"}, {"chat", "noir"}
        _refuse_constant(answer, *(([words], [pairs], x, True) for x in some))
        return [share.reshape(()) for share in found]

    return function


control = Exercise(
    f"""\
def noun_share(said, phrases, nouns, noun_first):
    hits = []
    for words, pairs in zip(said, phrases, strict=True):
        {PAIRS}
            if {KIND}:
                {HIT}
    return {SHARE}
""",
    Part(
        "noun_share",
        CONTROL_MISTAKES,
        lambda seed: [
            _said(27, 42),  # tells all mistakes apart
            _said(seed + 1, 30 + seed % 7),
            _said(seed + 2, 60),
        ],
        ["both shares are right: noun first, and adjective first, the control"],
        others="with other sentences, too",
        doubt="",
        describe=lambda value, due: (
            f"{_shares(value)} are given where the noun and where the adjective comes "
            f"first, {_shares(due)} are due"
        ),
        use=_both_kinds,
    ),
)


def _shares(value: list[torch.Tensor]) -> str:
    return " and ".join(f"{share.item():.3f}" for share in value)


# ------------------------------------------------------------ 10.3 an error analysis

ENOUGH = 0.98
FOUND, ALARMS = 0, 1


@cache
def _fresh() -> tuple[list[SentencePair], list[bool], list[str]]:
    """Sentences that the lesson does not show, whether they go wrong, what is said."""
    pairs = toy_corpus().validation
    outputs = other_outputs.somebodys_outputs(pairs)
    wrong = [a != p.target for a, p in zip(outputs, pairs, strict=True)]
    return pairs, wrong, outputs


MEASURED: WeakKeyDictionary = WeakKeyDictionary()


def _measuring(rule: Callable) -> Callable:
    """A rule as a function: how much of what goes wrong it finds, how often it errs."""

    def function(demand: int) -> list[float]:
        if rule not in MEASURED:
            MEASURED[rule] = _measured(rule)
        return MEASURED[rule][demand]

    return function


def _refuse_to_translate(pair: SentencePair) -> str:
    raise Stop(wrong("your rule asks the translator itself: say *when* it goes wrong"))


def _measured(rule: Callable) -> list[list[float]]:
    """[share, how many, of how many, a sentence that goes against the rule], twice."""
    pairs, wrong, _ = _fresh()
    with patch.object(other_outputs, "_output", _refuse_to_translate):
        given = [rule(pair) for pair in pairs]
    if all(answer is None or answer is ... for answer in given):
        raise NotImplementedError
    said = [bool(answer) for answer in given]
    both = [a and b for a, b in zip(said, wrong, strict=True)]
    found = []
    for whole, other in ((wrong, said), (said, wrong)):
        against = [i for i, x in enumerate(whole) if x and not other[i]]
        share = sum(both) / max(sum(whole), 1)
        found.append([share, sum(both), sum(whole), against[0] if against else -1])
    return found


def _facts(value: torch.Tensor, due: torch.Tensor) -> dict:
    share, hits, of, row = value.tolist()
    pairs, _, outputs = _fresh()
    shown = f"“{pairs[int(row)].source}”, said “{outputs[int(row)]}”"
    missed = f"; not found, for example: {shown}" if row >= 0 else ""
    return {"share": share, "hits": hits, "of": of, "shown": shown, "missed": missed}


def _trial(demand: int, praise: str, otherwise: str) -> Trial:
    return Trial(
        (demand,),
        [praise],
        otherwise=otherwise,
        accepts=lambda value, due: bool(value[0] >= ENOUGH),
        facts=_facts,
    )


analysis = Exercise(
    """\
def will_fail(pair):
    shown = phenomena(pair)
    english, french = split_words(pair.source), split_words(pair.target)
    owner = ("his" in english and "sa" in french) or (
        "her" in english and "son" in french
    )
    return owner or {"negation", "pronoun"} <= shown
""",
    Part(
        "will_fail",
        {},
        trials=[
            _trial(
                FOUND,
                "{hits:.0f} of the {of:.0f} fresh sentences that go wrong are found"
                "{missed}",
                "of {of:.0f} fresh sentences that go wrong, {hits:.0f} are found, and "
                "at least 98 % are due; not found, for example: {shown}",
            ),
            _trial(
                ALARMS,
                "{hits:.0f} of the {of:.0f} that it warns of do go wrong",
                "it warns of {of:.0f} fresh sentences, and {hits:.0f} of them go "
                "wrong: at least 98 % are due; a false alarm, for example: {shown}, "
                "which is right",
            ),
        ],
        use=_measuring,
    ),
    uses={"phenomena": phenomena, "split_words": split_words},
)
